//! One pod: how it begins, and how it ends.

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

/// How long a node may take to pull the image and to start it.
const PATIENCE: Duration = Duration::from_secs(300);
/// One status per line, whenever it changes.
const STATUS: &str = "jsonpath={.status}{\"\\n\"}";
/// Makes a kubelet end the container as if its time were over: SIGTERM, and the pod stays to say how it ended.
/// One that is deleted is gone with its exit code.
const DEADLINE: &str = r#"{"spec":{"activeDeadlineSeconds":1}}"#;

/// A pod that was made, or is about to be.
#[derive(Debug)]
pub(in crate::foreign) struct Pod {
    pub(super) kubectl: Kubectl,
    pub(super) name: String,
    pub(super) wire: Wire,
}

/// What is between a provider elsewhere and its world.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct Wire {
    pub(in crate::foreign) door: Door,
    pub(in crate::foreign) world: WorldHandle,
    /// Seconds of the world in a second.
    pub(in crate::foreign) pace: u32,
}

impl Pod {
    /// Returns when it runs, or has run.
    ///
    /// # Errors
    /// Why it never will, and what to do.
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

    /// What writes its log, until it ends.
    pub(super) fn log(&self) -> Command {
        self.kubectl.lasting(&["logs", "--follow", &self.name])
    }

    /// Tells it to stop.
    pub(in crate::foreign) async fn terminate(&self) {
        // It may have ended this moment; waiting tells.
        let _ = self.kubectl.call(&["patch", "pod", &self.name, "-p", DEADLINE]).await;
    }

    /// How it ended, once it has.
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

    /// Ends and removes it, whatever it is doing.
    ///
    /// No cluster kills a process at once: it gets a signal and a second or two for its farewells. They must not be heard, and
    /// that time is none of the world's. So the door is shut and the world stands still until it is gone.
    pub(in crate::foreign) async fn remove(&self) {
        let Wire { door, world, pace } = &self.wire;
        door.shut();
        world.set_pace(0);
        let (pod, secret) = (format!("pod/{}", self.name), format!("secret/{}", self.name));
        let delete = ["delete", &pod, &secret, "--now", "--ignore-not-found", "--timeout=60s"];
        match self.kubectl.call(&delete).await {
            Ok(_) => door.open(),
            // It may still be there, and is not let in again. Its label tells whose it is.
            Err(error) => tracing::warn!(pod = self.name, error = %error, "a pod is not removed"),
        }
        world.set_pace(*pace);
    }

    /// Follows its status until `pick` takes something of it.
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
