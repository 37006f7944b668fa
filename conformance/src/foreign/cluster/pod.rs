//! One pod: waits for its start and its end, and removes it.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use sim::{Door, WorldHandle};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use super::kubectl::Kubectl;
use super::status::Seen;

/// Maximum time until a node has pulled the image and started it.
const PATIENCE: Duration = Duration::from_secs(300);
/// Template that prints one status per line, at each change.
const STATUS: &str = "jsonpath={.status}{\"\\n\"}";
/// Patch that makes a kubelet end the container as at its deadline: with SIGTERM, after which the pod keeps the exit code.
/// Deletion would lose the exit code.
const DEADLINE: &str = r#"{"spec":{"activeDeadlineSeconds":1}}"#;

/// A pod that exists or is about to be created.
#[derive(Debug)]
pub(in crate::foreign) struct Pod {
    pub(super) kubectl: Kubectl,
    pub(super) name: String,
    pub(super) wire: Wire,
}

/// Connection between a provider elsewhere and its world.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct Wire {
    pub(in crate::foreign) door: Door,
    pub(in crate::foreign) world: WorldHandle,
    /// Seconds of world time per second.
    pub(in crate::foreign) pace: u32,
}

impl Pod {
    /// Returns once the pod runs or has ended.
    ///
    /// # Errors
    /// Fails with a remedy if the pod can never run, or does not within 5 minutes.
    pub(super) async fn begins(&self) -> anyhow::Result<()> {
        let mut last = String::new();
        let begins = self.watch(|seen| match seen {
            Seen::Runs | Seen::Ended(_) => Some(Ok(())),
            Seen::Cannot(why) => Some(Err(anyhow!(why))),
            Seen::Waits(why) => {
                last = why;
                None
            }
        });
        let begun = tokio::time::timeout(PATIENCE, begins).await;
        match begun {
            Ok(begun) => begun?,
            Err(_) => bail!("{last} for {} s; look at its cluster", PATIENCE.as_secs()),
        }
    }

    /// Returns the command that prints the log until the pod ends.
    pub(super) fn log(&self) -> Command {
        self.kubectl.lasting(&["logs", "--follow", &self.name])
    }

    /// Asks the provider to stop.
    pub(in crate::foreign) async fn terminate(&self) {
        // The pod may have ended already; waiting shows that.
        let _ = self.kubectl.call(&["patch", "pod", &self.name, "-p", DEADLINE]).await;
    }

    /// Waits for the end of the pod and returns its exit status.
    ///
    /// Cancel safe.
    pub(in crate::foreign) async fn end(&self) -> io::Result<ExitStatus> {
        let ended = self.watch(|seen| match seen {
            Seen::Ended(code) => Some(Ok(code)),
            Seen::Cannot(why) => Some(Err(io::Error::other(why))),
            Seen::Waits(_) | Seen::Runs => None,
        });
        let code = ended.await.map_err(io::Error::other)??;
        Ok(ExitStatus::from_raw(code << 8))
    }

    /// Ends the pod in any state, and removes it.
    ///
    /// No cluster kills a process at once: the process first gets a signal and a second or two. The world must not see the
    /// calls of that time, so the door is shut and the world's clock stands still until the pod is gone.
    pub(in crate::foreign) async fn remove(&self) {
        let Wire { door, world, pace } = &self.wire;
        door.shut();
        world.set_pace(0);
        let (pod, secret) = (format!("pod/{}", self.name), format!("secret/{}", self.name));
        let delete = ["delete", &pod, &secret, "--now", "--ignore-not-found", "--timeout=60s"];
        match self.kubectl.call(&delete).await {
            Ok(_) => door.open(),
            // The pod may still run, so the door stays shut. The label identifies its owner.
            Err(error) => tracing::warn!(pod = self.name, error = %error, "a pod is not removed"),
        }
        world.set_pace(*pace);
    }

    /// Follows the status until `pick` returns a value.
    async fn watch<T>(&self, mut pick: impl FnMut(Seen) -> Option<T>) -> anyhow::Result<T> {
        let mut child =
            self.kubectl.follow(&["get", "pod", &self.name, "--watch", "-o", STATUS]).await?;
        let out = child.stdout.take().context("kubectl has no output")?;
        let mut lines = BufReader::new(out).lines();
        while let Some(line) = lines.next_line().await? {
            let status: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(picked) = pick(Seen::of(&status)) {
                return Ok(picked);
            }
        }
        let mut said = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors.read_to_string(&mut said).await?;
        }
        bail!("pod {} cannot be followed: {}", self.name, said.trim())
    }
}
