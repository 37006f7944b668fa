//! `kubectl`, as it leads to one cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use crate::foreign::launch::Launcher;

/// Whoever does not answer for so long does not answer.
const LONGEST: Duration = Duration::from_secs(90);

/// The program, with options that lead to a cluster and a namespace.
#[derive(Clone)]
pub(super) struct Kubectl {
    launcher: Launcher,
    /// All of this program's: what gives it credentials may be a program that needs any of it.
    environment: BTreeMap<String, String>,
    options: Vec<String>,
}

/// Without the environment, which may have secrets.
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

    /// What a call prints.
    ///
    /// # Errors
    /// What it says, or that there is no kubectl.
    pub(super) async fn call(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.given("", arguments).await
    }

    /// What it prints when it is given this to read.
    ///
    /// # Errors
    /// What it says, or that there is no kubectl.
    pub(super) async fn given(&self, input: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let verb = arguments.first().copied().unwrap_or_default();
        let mut command = self.led(Command::new("kubectl"), arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().context("cannot start kubectl; install it, and have it in PATH")?;
        let pipe = child.stdin.take();
        let done = async {
            if let Some(mut pipe) = pipe {
                // One that does not read says why not as it ends.
                let _ = pipe.write_all(input.as_bytes()).await;
            }
            child.wait_with_output().await
        };
        let done = tokio::time::timeout(LONGEST, done).await;
        let done = done
            .map_err(|_| anyhow!("kubectl {verb}: no end within {} s", LONGEST.as_secs()))?
            .with_context(|| format!("kubectl {verb}"))?;
        if !done.status.success() {
            bail!("kubectl {verb}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// The command of a call that goes on, and that ends with this program.
    pub(super) fn lasting(&self, arguments: &[&str]) -> Command {
        self.led(self.launcher.command("kubectl"), arguments)
    }

    /// A call that goes on; what it prints is read from its pipes.
    pub(super) async fn follow(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.lasting(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.launcher.spawn(command).await.context("cannot start kubectl")
    }

    fn led(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(&self.options).args(arguments).env_clear().envs(&self.environment);
        // A signal of the terminal is for this program, which cleans up then.
        command.kill_on_drop(true).process_group(0);
        command
    }
}
