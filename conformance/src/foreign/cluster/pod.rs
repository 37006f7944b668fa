//! One pod of a provider: waits for its start and its end, and removes it.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use sim::{ClientGate, WorldHandle};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use super::kubectl::Kubectl;
use super::status::PodState;

/// Maximum time until the pod runs, including the pull of its image.
const PATIENCE: Duration = Duration::from_secs(300);
/// Output template for `kubectl` that prints the pod's status as one line at each change.
const STATUS: &str = "jsonpath={.status}{\"\\n\"}";
/// Patch that sets the pod's deadline to one second after its start, so that the kubelet stops the
/// container with SIGTERM. The pod then keeps the exit code, which a deletion would lose.
const DEADLINE: &str = r#"{"spec":{"activeDeadlineSeconds":1}}"#;

/// A pod that exists or is about to be created.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct Pod {
    pub(super) kubectl: Kubectl,
    pub(super) name: String,
    pub(super) wire: SimHandles,
}

/// Means to cut a provider in a pod off from its sim, and to stop world time.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct SimHandles {
    /// Gate that cuts the provider's replica off from the sim's listeners, or lets it in again.
    pub(in crate::foreign) door: ClientGate,
    pub(in crate::foreign) world: WorldHandle,
    /// Seconds of world time per second of the clock.
    pub(in crate::foreign) pace: u32,
}

impl Pod {
    /// Waits until the pod runs or has ended.
    ///
    /// # Errors
    /// Fails with a remedy if the pod can never run, or if it does not run within 5 minutes. Also
    /// fails if `kubectl` fails.
    pub(super) async fn wait_until_running(&self) -> anyhow::Result<()> {
        let mut last = String::new();
        let begins = self.watch(|seen| match seen {
            PodState::Runs | PodState::Ended(_) => Some(Ok(())),
            PodState::Cannot(why) => Some(Err(anyhow!(why))),
            PodState::Waits(why) => {
                last = why;
                None
            }
        });
        let begun = tokio::time::timeout(PATIENCE, begins).await;
        match begun {
            Ok(begun) => begun?,
            Err(_) => {
                bail!(
                    "the pod {} does not run after {} s (last state: {last}); look at the nodes \
                     and events of the cluster",
                    self.name,
                    PATIENCE.as_secs()
                )
            }
        }
    }

    /// Returns the command that prints the log until the pod ends.
    pub(super) fn log(&self) -> Command {
        self.kubectl.long_command(&["logs", "--follow", &self.name])
    }

    /// Returns the UID of the pod, or `None` if the pod does not exist.
    pub(in crate::foreign) async fn uid(&self) -> Option<String> {
        let asked = ["get", "pod", &self.name, "-o", "jsonpath={.metadata.uid}"];
        self.kubectl.call(&asked).await.ok().filter(|uid| !uid.is_empty())
    }

    /// Lets the kubelet send SIGTERM to the provider.
    pub(in crate::foreign) async fn terminate(&self) {
        // Ignores an error: the pod may have ended already, which `end` then reports.
        let _ = self.kubectl.call(&["patch", "pod", &self.name, "-p", DEADLINE]).await;
    }

    /// Waits for the end of the pod and returns the exit status of its container.
    ///
    /// # Errors
    /// Fails if the pod cannot run or ends without an exit code, or if `kubectl` fails.
    ///
    /// Cancel safe.
    pub(in crate::foreign) async fn end(&self) -> io::Result<ExitStatus> {
        let ended = self.watch(|seen| match seen {
            PodState::Ended(code) => Some(Ok(code)),
            PodState::Cannot(why) => Some(Err(io::Error::other(why))),
            PodState::Waits(_) | PodState::Runs => None,
        });
        let code = ended.await.map_err(io::Error::other)??;
        Ok(ExitStatus::from_raw(code << 8))
    }

    /// Ends the pod if it still runs, and removes Pod and Secret.
    ///
    /// A cluster does not kill a process at once: the process first gets a signal, and then has a
    /// second or two. The provider's calls in this time must not reach the world. So this function
    /// shuts the gate of the listeners and stops world time until the pod no longer exists. If the
    /// removal fails, world time goes on, but the gate stays shut.
    pub(in crate::foreign) async fn remove(&self) {
        let SimHandles { door, world, pace } = &self.wire;
        door.shut();
        world.set_pace(0);
        let (pod, secret) = (format!("pod/{}", self.name), format!("secret/{}", self.name));
        let delete = ["delete", &pod, &secret, "--now", "--ignore-not-found", "--timeout=60s"];
        match self.kubectl.call(&delete).await {
            Ok(_) => door.open(),
            // The pod may still run, so the gate stays shut. A later run finds the pod by its
            // labels.
            Err(error) => {
                tracing::warn!(pod = self.name, error = %error, "cannot remove the pod; the driver keeps its connections cut, and tries again at the end of the run")
            }
        }
        world.set_pace(*pace);
    }

    /// Watches the pod's status until `pick` returns a value, and returns this value.
    ///
    /// # Errors
    /// Fails if `kubectl` cannot be started, if its output cannot be read, or if it ends before
    /// `pick` returns a value.
    async fn watch<T>(&self, mut pick: impl FnMut(PodState) -> Option<T>) -> anyhow::Result<T> {
        let mut child =
            self.kubectl.spawn_long(&["get", "pod", &self.name, "--watch", "-o", STATUS]).await?;
        let out = child
            .stdout
            .take()
            .context("kubectl has no pipe for its output; report this bug of conformance")?;
        let mut lines = BufReader::new(out).lines();
        while let Some(line) = lines.next_line().await? {
            let status: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(picked) = pick(PodState::from_status(&status)) {
                return Ok(picked);
            }
        }
        let mut said = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors.read_to_string(&mut said).await?;
        }
        bail!("kubectl get --watch of the pod {} ended too early: {}", self.name, said.trim())
    }
}
