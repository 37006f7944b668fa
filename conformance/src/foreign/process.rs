//! One replica of a provider on the real clock: its process, its end, and its output.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sim::WorldHandle;
use sim::world::Time;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::launch::Launcher;
use super::processor_wait::ProcessorWaits;
use super::remote::RemoteProvider;
use crate::lab::Exit;

/// Maximum real time from SIGTERM to the end of a process. After this time the driver kills the
/// process, as a kubelet does.
const GRACE: Duration = Duration::from_secs(30);

/// Size of a run's log, in bytes, up to which every line is kept. Of later lines, only the last
/// [`LAST`] are kept.
const MOST: usize = 64 << 20;
/// Maximum number of kept lines beyond [`MOST`]: enough for the message of a crash.
const LAST: usize = 400;
/// Maximum length of a line, in bytes; a longer line is cut into several.
const LONGEST: u64 = 64 << 10;

/// The process of a replica, or the client process of its container or pod. Dropping this value
/// kills the replica.
#[derive(Debug)]
pub(crate) struct Process {
    index: usize,
    /// Sequence number of the first ledger record that this process can have caused.
    since: u64,
    signals: mpsc::UnboundedSender<Order>,
    stop: CancellationToken,
    kill: CancellationToken,
    ended: CancellationToken,
    exit: Arc<Mutex<Option<(Exit, Time)>>>,
    /// Address of the replica's HTTPS endpoint, if the driver knows it.
    endpoint: Option<SocketAddr>,
}

/// A signal to send to the process, and the channel for the result.
type Order = (Signal, oneshot::Sender<Result<(), String>>);

/// Output of the processes of a run, each line with the world time of its arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs(Arc<Mutex<LogBuffer>>);

#[derive(Debug, Default)]
struct LogBuffer {
    text: String,
    /// The last lines after `text` has exceeded [`MOST`], at most [`LAST`].
    last: VecDeque<String>,
    /// Number of all lines after `text` has exceeded [`MOST`], including dropped ones.
    n_beyond: usize,
}

impl Logs {
    /// Returns all kept lines, each with its time.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().expect("no writer panics");
        let last: String = kept.last.iter().map(String::as_str).collect();
        format!("{}{last}", kept.text)
    }

    /// Returns the number of lines that were dropped because the log was too large.
    pub(crate) fn n_dropped(&self) -> usize {
        let kept = self.0.lock().expect("no writer panics");
        kept.n_beyond - kept.last.len()
    }

    /// Returns the last `n` lines, without their times.
    pub(crate) fn tail(&self, n: usize) -> Vec<String> {
        let text = self.text();
        let lines: Vec<&str> = crate::lab::capture::lines(&text).map(|(_, line)| line).collect();
        lines[lines.len().saturating_sub(n)..].iter().map(|it| (*it).to_owned()).collect()
    }

    /// Returns the last line that is not blank, without its time, or says that the output is empty.
    pub(crate) fn last_line(&self) -> String {
        let last = self.tail(20).into_iter().rfind(|line| !line.trim().is_empty());
        last.unwrap_or_else(|| "its output is empty".to_owned())
    }

    fn add(&self, world: &WorldHandle, line: &str) {
        let now = world.now().since_start().as_secs_f64();
        self.0.lock().expect("no writer panics").add(format!("{now:.3} {line}\n"));
    }
}

impl LogBuffer {
    fn add(&mut self, line: String) {
        if self.text.len() <= MOST {
            self.text.push_str(&line);
            return;
        }
        self.n_beyond += 1;
        self.last.push_back(line);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }
}

impl Process {
    /// Starts the process of the replica `index`, and a task that waits for the end of the process
    /// and records in `waits` how long the process waited for a processor.
    /// `since` is the sequence number of the first ledger record that the process can cause.
    /// `behind` is the container or pod of which `command` is the client process. `tasks` tracks
    /// the waiting task, so that the end is not missed even if the returned handle is dropped.
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
    ) -> anyhow::Result<Self> {
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
        let (signals, orders) = mpsc::unbounded_channel();
        let process = Self {
            index,
            since,
            signals,
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            ended: CancellationToken::new(),
            exit: Arc::default(),
            endpoint: None,
        };
        let (stop, kill, ended) =
            (process.stop.clone(), process.kill.clone(), process.ended.clone());
        let (exit, logs, world) = (Arc::clone(&process.exit), logs.clone(), world.clone());
        // The waits of a client process say nothing about the container or pod behind it.
        let measured = if behind.is_none() { child.id() } else { None };
        let waits = waits.clone();
        tasks.spawn(async move {
            let how = tokio::select! {
                biased;
                how = ProcessTask { child, behind, orders }.keep(&stop, &kill) => how,
                never = waits.follow(measured) => match never {},
            };
            let at = world.now();
            for reader in readers.into_iter().flatten() {
                // A child of the program may hold the pipe open, so this waits for the rest of the
                // output for at most one second.
                let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
            }
            let how = if crashed(&how, &logs) { Exit::Panicked } else { how };
            *exit.lock().expect("no holder panics") = Some((how, at));
            ended.cancel();
        });
        Ok(process)
    }

    /// Sets the address of the HTTPS endpoint.
    pub(super) fn serving_at(mut self, endpoint: Option<SocketAddr>) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Returns the address of the replica's HTTPS endpoint, or `None` if the driver does not know
    /// it: for a container or pod, and if neither the manifest nor the flags have `$(port)`.
    pub(crate) fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// Returns the index of the replica.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the sequence number of the first ledger record that this process can have caused.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Suspends the process and its children.
    ///
    /// # Errors
    /// Fails if the process has ended, if the provider runs in a container or pod, or if the system
    /// rejects the signal.
    pub(crate) async fn suspend(&self) -> Result<(), String> {
        self.signal(Signal::STOP).await
    }

    /// Resumes the process and its children. Does nothing if the process has ended or is not
    /// suspended, or if the provider runs in a container or pod.
    pub(crate) async fn resume(&self) {
        let _ = self.signal(Signal::CONT).await;
    }

    async fn signal(&self, signal: Signal) -> Result<(), String> {
        let (done, result) = oneshot::channel();
        let ended = || format!("replica {} has ended", self.index);
        self.signals.send((signal, done)).map_err(|_| ended())?;
        result.await.map_err(|_| ended())?
    }

    /// Waits until the process has ended for any reason.
    ///
    /// Cancel safe.
    pub(crate) async fn end(&self) {
        self.ended.cancelled().await;
    }

    /// Returns how the process ended, and at which world time, or `None` if it still runs.
    pub(crate) fn ended(&self) -> Option<(Exit, Time)> {
        self.exit.lock().expect("no holder panics").clone()
    }

    /// Sends SIGTERM, waits for the end of the process, and returns how it ended. Kills the process
    /// if it still runs after 30 s.
    pub(crate) async fn stop(self) -> Exit {
        self.stop.cancel();
        self.end().await;
        self.ended().map_or(Exit::Killed, |(how, _)| how)
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
    orders: mpsc::UnboundedReceiver<Order>,
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
    fn signal(&self, signal: Signal) -> Result<(), String> {
        if self.behind.is_some() {
            return Err("only a process of this computer can be suspended or resumed".to_owned());
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

/// Waits for the end of the provider and returns its exit status.
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

    #[test]
    fn a_log_beyond_its_maximum_size_keeps_the_last_lines_and_counts_the_dropped_ones() {
        let logs = Logs::default();
        let line = "x".repeat(1 << 20);
        for n in 0..600 {
            let line = if n < 70 { line.clone() } else { n.to_string() };
            logs.0.lock().unwrap().add(format!("0.000 {line}\n"));
        }
        assert_eq!(logs.tail(2), ["598", "599"]);
        assert_eq!(logs.n_dropped(), 600 - 65 - LAST + 1);
    }

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
