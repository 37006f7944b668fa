//! One replica of a foreign provider: its process, its end, and its output.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sim::WorldHandle;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::behind::Behind;
use super::launch::Launcher;
use crate::lab::Exit;

/// Real time after which a process that got SIGTERM is killed, as by a kubelet.
const GRACE: Duration = Duration::from_secs(30);

/// Maximum size of a run's log, in bytes; later lines are only counted.
const MOST: usize = 16 << 20;

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    index: usize,
    stop: CancellationToken,
    kill: CancellationToken,
    ended: CancellationToken,
    exit: Arc<Mutex<Option<Exit>>>,
}

/// Output of the processes of a run, each line with the world time of its arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    text: String,
    dropped: usize,
}

impl Logs {
    /// Returns all lines so far.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().expect("no writer panics");
        match kept.dropped {
            0 => kept.text.clone(),
            n => format!("{}0.000 ({n} more lines were dropped)\n", kept.text),
        }
    }

    /// Returns the last `n` lines, without their times.
    pub(crate) fn tail(&self, n: usize) -> Vec<String> {
        let text = self.text();
        let lines: Vec<&str> = crate::capture::lines(&text).map(|(_, line)| line).collect();
        lines[lines.len().saturating_sub(n)..].iter().map(|it| (*it).to_owned()).collect()
    }

    fn add(&self, world: &WorldHandle, line: &str) {
        let mut kept = self.0.lock().expect("no writer panics");
        if kept.text.len() > MOST {
            kept.dropped += 1;
            return;
        }
        let now = world.now().since_start().as_secs_f64();
        kept.text.push_str(&format!("{now:.3} {line}\n"));
    }
}

impl Process {
    /// Starts a process. `tasks` waits for its end even if the handle is dropped.
    pub(super) async fn spawn(
        launcher: &Launcher,
        index: usize,
        (mut command, behind): (Command, Option<Behind>),
        world: &WorldHandle,
        logs: &Logs,
        tasks: &TaskTracker,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Signals of the terminal reach only the driver, which stops the processes.
        command.process_group(0).kill_on_drop(true);
        let mut child = match launcher.spawn(command).await {
            Ok(child) => child,
            Err(error) => {
                if let Some(behind) = &behind {
                    behind.remove().await;
                }
                return Err(error);
            }
        };
        let readers = [
            child.stdout.take().map(|out| tasks.spawn(copy(out, world.clone(), logs.clone()))),
            child.stderr.take().map(|err| tasks.spawn(copy(err, world.clone(), logs.clone()))),
        ];
        let process = Self {
            index,
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            ended: CancellationToken::new(),
            exit: Arc::default(),
        };
        let (stop, kill, ended) =
            (process.stop.clone(), process.kill.clone(), process.ended.clone());
        let (exit, logs) = (Arc::clone(&process.exit), logs.clone());
        tasks.spawn(async move {
            let how = Kept { child, behind }.keep(&stop, &kill).await;
            for reader in readers.into_iter().flatten() {
                // A child of the program may hold the pipe open, so the wait for its output is short.
                let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
            }
            let how = if crashed(&how, &logs) { Exit::Panicked } else { how };
            *exit.lock().expect("no holder panics") = Some(how);
            ended.cancel();
        });
        Ok(process)
    }

    /// Returns the index of the replica.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Completes when the process has ended for any reason.
    ///
    /// Cancel safe.
    pub(crate) async fn end(&self) {
        self.ended.cancelled().await;
    }

    /// Returns how the process ended, or `None` if it runs.
    pub(crate) fn ended(&self) -> Option<Exit> {
        self.exit.lock().expect("no holder panics").clone()
    }

    /// Asks the process to stop and waits for its end.
    pub(crate) async fn stop(self) -> Exit {
        self.stop.cancel();
        self.end().await;
        self.ended().unwrap_or(Exit::Killed)
    }

    /// Kills the process and waits for its end.
    pub(crate) async fn kill(self) {
        self.kill.cancel();
        self.end().await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}

/// True if the log shows that the program crashed by a defect of its own.
fn crashed(how: &Exit, logs: &Logs) -> bool {
    let Exit::Failed(_) = how else { return false };
    logs.tail(4000).iter().any(|line| {
        ["panic: ", "fatal error: ", "SIGSEGV"].iter().any(|it| line.starts_with(it))
            || (line.starts_with("thread '") && line.contains("panicked at"))
    })
}

async fn copy(from: impl AsyncRead + Unpin, world: WorldHandle, logs: Logs) {
    let mut lines = BufReader::new(from).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        logs.add(&world, &String::from_utf8_lossy(&line));
    }
}

/// A process, and the container or pod that it represents.
struct Kept {
    child: Child,
    behind: Option<Behind>,
}

impl Kept {
    /// Waits until the process ends, by itself or by order.
    async fn keep(mut self, stop: &CancellationToken, kill: &CancellationToken) -> Exit {
        let how = tokio::select! {
            biased;
            () = kill.cancelled() => None,
            status = self.end() => Some(by_itself(status)),
            () = stop.cancelled() => {
                self.terminate().await;
                tokio::select! {
                    biased;
                    () = kill.cancelled() => None,
                    status = self.end() => Some(by_order(status)),
                    () = tokio::time::sleep(GRACE) => {
                        Some(Exit::Failed(format!("still there {} s after SIGTERM", GRACE.as_secs())))
                    }
                }
            }
        };
        // Ends the process first, because it may still create the container or pod. The provider may
        // outlive the process, so it is removed in every case.
        let _ = self.child.kill().await;
        if let Some(behind) = &self.behind {
            behind.remove().await;
        }
        how.unwrap_or(Exit::Killed)
    }

    /// Waits for the end and returns its status.
    ///
    /// Cancel safe.
    async fn end(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        match &self.behind {
            None => Ok(status),
            Some(behind) => behind.end(status).await,
        }
    }

    async fn terminate(&self) {
        if let Some(behind) = &self.behind {
            return behind.terminate().await;
        }
        let pid = self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            // The process may have ended already; waiting shows that.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn by_itself(status: std::io::Result<ExitStatus>) -> Exit {
    match status {
        Ok(status) => Exit::Failed(status.to_string()),
        Err(error) => Exit::Failed(format!("nobody knows how it ended: {error}")),
    }
}

/// SIGTERM also stops a program without a handler; checks judge separately what it left open.
fn by_order(status: std::io::Result<ExitStatus>) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) if status.success() || status.signal() == Some(15) => Exit::Stopped,
        // Docker reports the same signal as this code.
        Ok(status) if status.code() == Some(128 + 15) => Exit::Stopped,
        other => by_itself(other),
    }
}
