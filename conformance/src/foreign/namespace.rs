//! Starts a program in a mount namespace of its own, for programs with fixed paths and fixed host names.
//!
//! `unshare` (util-linux) makes the namespace and a short script mounts in it, so that the machine's own files stay
//! unchanged. If a path does not exist, the script replaces its deepest existing directory by one that links to all
//! previous entries and contains the path. This needs root.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::process::Command;

use super::launch::Launcher;

/// `$1` is a scratch directory, then come pairs of a path inside and a path outside, `--`, and the program.
const SCRIPT: &str = r#"set -eu
scratch=$1; shift
n=0
while [ "$1" != -- ]; do
  inside=$1 outside=$2; shift 2
  n=$((n + 1))
  if [ ! -e "$inside" ] || [ -L "$inside" ]; then
    parent=$(dirname "$inside")
    while [ ! -d "$parent" ] || [ -L "$parent" ]; do parent=$(dirname "$parent"); done
    [ "$parent" != / ] || { echo "binds: $inside: make its directory in / first" >&2; exit 1; }
    mkdir -p "$scratch/$n"
    mount --rbind "$parent" "$scratch/$n"
    mount -t tmpfs tmpfs "$parent"
    for entry in "$scratch/$n"/* "$scratch/$n"/.[!.]*; do
      [ -e "$entry" ] || [ -L "$entry" ] || continue
      ln -s "$entry" "$parent/${entry##*/}"
    done
    rm -f "$inside"
    if [ -d "$outside" ]; then mkdir -p "$inside"; else mkdir -p "$(dirname "$inside")"; : >"$inside"; fi
  fi
  mount --bind "$outside" "$inside"
done
shift
exec "$@"
"#;

/// Returns the command of the program in a namespace with `binds` and `hosts`.
pub(super) fn command(
    launcher: &Launcher,
    directory: &Path,
    binds: &[(PathBuf, PathBuf)],
    hosts: &BTreeMap<String, IpAddr>,
    program: &str,
    arguments: &[String],
) -> anyhow::Result<Command> {
    if !rustix::process::geteuid().is_root() {
        bail!("binds and hosts need a mount namespace, and that needs root: run this as root");
    }
    let scratch = directory.join("mounts");
    std::fs::create_dir_all(&scratch)
        .with_context(|| format!("cannot make {}", scratch.display()))?;
    let mut command = launcher.command("unshare");
    command.args(["--mount", "--propagation", "private", "--", "sh", "-c", SCRIPT, "sh"]);
    command.arg(&scratch);
    let listed = directory.join("hosts");
    if !hosts.is_empty() {
        let mut text = String::from("127.0.0.1 localhost\n");
        for (name, address) in hosts {
            text.push_str(&format!("{address} {name}\n"));
        }
        std::fs::write(&listed, text)
            .with_context(|| format!("cannot write {}", listed.display()))?;
        // Mounted first, before another mount can replace it.
        command.arg("/etc/hosts").arg(&listed);
    }
    for (inside, outside) in binds {
        command.arg(inside).arg(outside);
    }
    command.arg("--").arg(program).args(arguments);
    Ok(command)
}
