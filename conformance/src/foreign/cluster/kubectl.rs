//! Runs `kubectl` with the options that select one cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use crate::foreign::host::launch::Launcher;

/// Timeout of a call that is not long-running.
const LONGEST: Duration = Duration::from_secs(90);

/// `kubectl` with options that select a cluster and a namespace.
#[derive(Clone)]
pub(super) struct Kubectl {
    launcher: Launcher,
    /// Environment of `kubectl`: all variables of this program, because a credential plugin may
    /// need any of them.
    environment: BTreeMap<String, String>,
    options: Vec<String>,
}

/// Leaves out the environment, which may contain secrets.
impl fmt::Debug for Kubectl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubectl").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Kubectl {
    pub(super) fn new(
        launcher: Launcher,
        environment: BTreeMap<String, String>,
        place: &BTreeMap<&'static str, String>,
    ) -> Self {
        let option = |key: &&str| Some(format!("--{key}={}", place.get(key)?));
        let options = ["kubeconfig", "context", "namespace"].iter().filter_map(option).collect();
        Self { launcher, environment, options }
    }

    /// Runs `kubectl` and returns its standard output.
    ///
    /// # Errors
    /// Fails if `kubectl` is missing, fails, or does not end within 90 s. If `kubectl` fails, the
    /// error contains its error output.
    pub(super) async fn call(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.call_with_input("", arguments).await
    }

    /// Runs `kubectl` with `input` as its standard input, and returns its standard output.
    ///
    /// # Errors
    /// Fails as [`Self::call`] does.
    pub(super) async fn call_with_input(
        &self,
        input: &str,
        arguments: &[&str],
    ) -> anyhow::Result<String> {
        let verb = arguments.first().copied().unwrap_or_default();
        let mut command = self.with_options(Command::new("kubectl"), arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().context("cannot start kubectl; install kubectl in a folder of PATH")?;
        let pipe = child.stdin.take();
        let done = async {
            if let Some(mut pipe) = pipe {
                // Ignores an error here: a kubectl that does not read its input reports the reason
                // when it ends.
                let _ = pipe.write_all(input.as_bytes()).await;
            }
            child.wait_with_output().await
        };
        let done = tokio::time::timeout(LONGEST, done).await;
        let done = done
            .map_err(|_| {
                anyhow!(
                    "kubectl {verb} did not end within {} s; check that the API server of the \
                     cluster answers",
                    LONGEST.as_secs()
                )
            })?
            .with_context(|| format!("cannot read the output of kubectl {verb}"))?;
        if !done.status.success() {
            bail!("kubectl {verb} failed: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Returns the command of a long-running call. The kernel ends the call when this program ends.
    pub(super) fn long_command(&self, arguments: &[&str]) -> Command {
        self.with_options(self.launcher.command("kubectl"), arguments)
    }

    /// Starts a long-running call. The caller must read its output and error output.
    pub(super) async fn spawn_long(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.long_command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.launcher
            .spawn(command)
            .await
            .context("cannot start kubectl; install kubectl in a folder of PATH")
    }

    fn with_options(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(&self.options).args(arguments).env_clear().envs(&self.environment);
        // Signals of the terminal reach only this program, which then cleans up.
        command.kill_on_drop(true).process_group(0);
        command
    }
}
