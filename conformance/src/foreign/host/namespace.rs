//! Starts a program in its own mount namespace, for programs with fixed paths and fixed host names.
//!
//! `unshare` (util-linux) makes the namespace, and a short script mounts the files in it, so that
//! the files outside of the namespace stay unchanged. If a path does not exist or is a symbolic
//! link, the script first mounts a new directory over the nearest real directory above the path,
//! and creates the path in the new directory. All other entries of the covered directory become
//! links in the new one. The script needs root. It fails if the nearest real directory is `/`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::process::Command;

use super::launch::Launcher;

/// Script that mounts files and then becomes the program. Its arguments are a scratch directory;
/// pairs of a path in the namespace and the path outside that is mounted there; `--`; and the
/// program with its arguments.
const SCRIPT: &str = r#"set -eu
scratch=$1; shift
n=0
while [ "$1" != -- ]; do
  inside=$1 outside=$2; shift 2
  n=$((n + 1))
  if [ ! -e "$inside" ] || [ -L "$inside" ]; then
    parent=$(dirname "$inside")
    while [ ! -d "$parent" ] || [ -L "$parent" ]; do parent=$(dirname "$parent"); done
    [ "$parent" != / ] || { echo "binds: $inside: its top directory does not exist; create it first" >&2; exit 1; }
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

/// Returns the command that runs `program` with `arguments` in its own mount namespace.
///
/// `binds` are pairs of a path in the namespace and the path outside that is mounted there. If
/// `hosts` is not empty, `/etc/hosts` in the namespace contains only `localhost` and these names.
/// The command keeps its own files in `directory`.
///
/// # Errors
/// Fails if this process is not root, or if a file cannot be written.
pub(super) fn command(
    launcher: &Launcher,
    directory: &Path,
    binds: &[(PathBuf, PathBuf)],
    hosts: &BTreeMap<String, IpAddr>,
    program: &str,
    arguments: &[String],
) -> anyhow::Result<Command> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "binds and hosts need a mount namespace, and that needs root: run conformance as root"
        );
    }
    let scratch = directory.join("mounts");
    std::fs::create_dir_all(&scratch).with_context(|| {
        format!(
            "cannot create the folder {}; check TMPDIR, its free space and permissions",
            scratch.display()
        )
    })?;
    let mut command = launcher.command("unshare");
    command.args(["--mount", "--propagation", "private", "--", "sh", "-c", SCRIPT, "sh"]);
    command.arg(&scratch);
    let listed = directory.join("hosts");
    if !hosts.is_empty() {
        let mut text = String::from("127.0.0.1 localhost\n");
        for (name, address) in hosts {
            text.push_str(&format!("{address} {name}\n"));
        }
        std::fs::write(&listed, text).with_context(|| {
            format!(
                "cannot write {}; check TMPDIR, its free space and permissions",
                listed.display()
            )
        })?;
        // The script mounts this file first, before another mount can replace `/etc`.
        command.arg("/etc/hosts").arg(&listed);
    }
    for (inside, outside) in binds {
        command.arg(inside).arg(outside);
    }
    command.arg("--").arg(program).args(arguments);
    Ok(command)
}
