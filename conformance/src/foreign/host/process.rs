//! One replica of a provider on the real clock: its process, its end, and its output.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sim::WorldHandle;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::launch::Launcher;
use super::processor_wait::{ProcessorWaits, ProviderProcesses};
use super::remote::RemoteProvider;
use crate::lab::{Exit, Logs, Process, ProcessControl, ProcessOrder};

/// Maximum real time from SIGTERM to the end of a process. After this time the driver kills the
/// process, as a kubelet does.
const GRACE: Duration = Duration::from_secs(30);

/// Maximum length of a line, in bytes; a longer line is cut into several.
const LONGEST: u64 = 64 << 10;

/// Starts the process of a replica and copies its output to `logs`, each line with the time of
/// `world`. A task waits for the end of the process and records in `waits` how long the process
/// waited for a processor. `since` is the sequence number of the first ledger record that the
/// process can cause. `behind` is the container or pod of which `command` is the client process.
/// `tasks` tracks the waiting task, so that the end is not missed even if the returned handle is
/// dropped.
///
/// # Errors
/// Fails if the process does not start, and then removes the container or pod.
pub(super) async fn spawn(
    launcher: &Launcher,
    (index, since): (usize, u64),
    (mut command, behind): (Command, Option<RemoteProvider>),
    world: &WorldHandle,
    (logs, waits): (&Logs, &ProcessorWaits),
    tasks: &TaskTracker,
) -> anyhow::Result<Process> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Signals of the terminal reach only this program, which then stops the processes.
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
    let (process, control) = Process::new(index, since);
    let ProcessControl { orders, stop, kill, end } = control;
    let (logs, world, waits) = (logs.clone(), world.clone(), waits.clone());
    let (id, remote) = (child.id(), behind.clone());
    tasks.spawn(async move {
        let measuring = async {
            // The waits of a client process say nothing about the container or pod behind it.
            let which = match &remote {
                None => id.map(ProviderProcesses::Id),
                Some(remote) => remote.processes().await,
            };
            match which {
                Some(which) => waits.follow(which).await,
                None => std::future::pending().await,
            }
        };
        let how = tokio::select! {
            biased;
            how = ProcessTask { child, behind, orders }.keep(&stop, &kill) => how,
            never = measuring => match never {},
        };
        let at = world.now();
        for reader in readers.into_iter().flatten() {
            // A child of the program may hold the pipe open, so this waits for the rest of the
            // output for at most one second.
            let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
        }
        let how = if crashed(&how, &logs) { Exit::Panicked } else { how };
        end.report(how, at);
    });
    Ok(process)
}

/// True if the program failed and one of the last 4,000 lines of the run's log begins like the
/// message of a crash of a Go or Rust program. All replicas of the run share the log.
fn crashed(how: &Exit, logs: &Logs) -> bool {
    let Exit::Failed(_) = how else { return false };
    logs.tail(4000).iter().any(|line| {
        ["panic: ", "fatal error: ", "SIGSEGV"].iter().any(|it| line.starts_with(it))
            || (line.starts_with("thread '") && line.contains("panicked at"))
    })
}

async fn copy(from: impl AsyncRead + Unpin, world: WorldHandle, logs: Logs) {
    let mut reader = BufReader::new(from);
    while let Ok(Some(line)) = next_line(&mut reader).await {
        logs.add(&world, &line);
    }
}

/// Returns the next line of the output, or the next [`LONGEST`] bytes of a longer line; `None` at
/// the end of the output.
async fn next_line(from: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    if from.take(LONGEST).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    Ok(Some(String::from_utf8_lossy(line).into_owned()))
}

/// A process and, if it is only a client process, the container or pod behind it.
struct ProcessTask {
    child: Child,
    behind: Option<RemoteProvider>,
    orders: mpsc::UnboundedReceiver<ProcessOrder>,
}

impl ProcessTask {
    /// Waits until the process ends by itself. If `stop` or `kill` is canceled before that, stops
    /// or kills the process. Until then, sends the signals that callers order. At the end, removes
    /// the container or pod, and returns how the process ended.
    async fn keep(mut self, stop: &CancellationToken, kill: &CancellationToken) -> Exit {
        let how = loop {
            let Self { child, behind, orders } = &mut self;
            tokio::select! {
                biased;
                () = kill.cancelled() => break None,
                status = end(child, behind.as_ref()) => break Some(by_itself(status)),
                () = stop.cancelled() => break self.stopped(kill).await,
                Some((signal, done)) = orders.recv() => {
                    // Ignores an error, because the caller may no longer wait.
                    let _ = done.send(self.signal(signal));
                }
            }
        };
        // Kills the client process first, because it may still create the container or pod. The
        // provider may outlive its client process, so the container or pod is removed in every
        // case.
        let _ = self.child.kill().await;
        if let Some(behind) = &self.behind {
            behind.remove().await;
        }
        how.unwrap_or(Exit::Killed)
    }

    /// Sends SIGTERM, and waits at most [`GRACE`] for the end of the process. If it still runs
    /// then, returns a failure. Returns `None` if `kill` is canceled meanwhile.
    async fn stopped(&mut self, kill: &CancellationToken) -> Option<Exit> {
        self.terminate().await;
        tokio::select! {
            biased;
            () = kill.cancelled() => None,
            status = end(&mut self.child, self.behind.as_ref()) => Some(by_order(status)),
            () = tokio::time::sleep(GRACE) => {
                Some(Exit::Failed(format!("still running {} s after SIGTERM", GRACE.as_secs())))
            }
        }
    }

    async fn terminate(&self) {
        if let Some(behind) = &self.behind {
            return behind.terminate().await;
        }
        if let Some(pid) = self.pid() {
            // Ignores errors: a process that has ended already needs no signal. A suspended process
            // gets SIGTERM only when SIGCONT resumes it.
            let _ = kill_process(pid, Signal::TERM);
            let _ = kill_process_group(pid, Signal::CONT);
        }
    }

    /// Sends a signal to the process and its children, which form one process group.
    ///
    /// # Errors
    /// Fails for a container or pod, if the process has ended, or if the system rejects the signal.
    fn signal(&self, signal: Signal) -> Result<(), String> {
        if self.behind.is_some() {
            return Err(
                "only a provider that runs as a process of this computer can be suspended or \
                 resumed"
                    .to_owned(),
            );
        }
        let pid = self.pid().ok_or("the process has ended")?;
        kill_process_group(pid, signal)
            .map_err(|error| format!("cannot send a signal to the process: {error}"))
    }

    /// Returns the ID of the process, or `None` if it has ended.
    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
    }
}

/// Waits for the end of the process and, if `behind` is set, of the container or pod. Returns the
/// exit status of the provider.
///
/// Cancel safe.
async fn end(child: &mut Child, behind: Option<&RemoteProvider>) -> std::io::Result<ExitStatus> {
    let status = child.wait().await?;
    match behind {
        None => Ok(status),
        Some(behind) => behind.end(status).await,
    }
}

/// Returns how the provider ended, if the driver did not ask it to stop.
fn by_itself(status: std::io::Result<ExitStatus>) -> Exit {
    match status {
        Ok(status) if status.success() => Exit::Finished,
        Ok(status) => Exit::Failed(status.to_string()),
        Err(error) => Exit::Failed(format!("its exit status is unknown: {error}")),
    }
}

/// Returns how the provider ended after SIGTERM. A program that SIGTERM ends because it has no
/// handler also counts as stopped; checks judge separately what the program left open.
fn by_order(status: std::io::Result<ExitStatus>) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) if status.success() || status.signal() == Some(15) => Exit::Stopped,
        // `docker run` exits with this code if SIGTERM has ended the container.
        Ok(status) if status.code() == Some(128 + 15) => Exit::Stopped,
        other => by_itself(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_without_an_end_of_line_is_read_in_pieces() {
        let output = [vec![b'x'; 150_000], b"\nend".to_vec()].concat();
        let mut reader = BufReader::new(&output[..]);
        let mut lengths = Vec::new();
        while let Some(line) = next_line(&mut reader).await.unwrap() {
            lengths.push(line.len());
        }
        assert_eq!(lengths, [65_536, 65_536, 18_928, 3]);
    }
}
