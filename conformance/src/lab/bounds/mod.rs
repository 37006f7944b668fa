//! Limits the resources of a provider in one case, so that a provider that runs away does not
//! exhaust the lab.
//!
//! Virtual time stands still for a provider that calls in a loop without waiting, so no timeout
//! ends the loop. Therefore the lab counts the calls, per moment and in total, and a separate
//! thread checks processor time, wall time and memory. An exceeded bound ends the case with a
//! verdict and a transcript.

pub(crate) mod memory;
mod processor;

use std::fmt;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use sim::ledger::Ledger;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::scenario::Scenario;

/// Limits of the resources that a provider may use in one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of calls at one moment.
    pub at_once: u64,
    /// Maximum number of calls in total.
    pub calls: u64,
    /// Maximum processor time of the thread of the run, if the system reports it.
    pub processor: Duration,
    /// Maximum wall time. It is long, because the computer may be busy with something else.
    pub wall: Duration,
    /// Maximum growth of this process's memory, in bytes.
    pub memory: u64,
}

impl Bounds {
    /// Returns bounds that suffice for every working provider. For comparison: when five thousand
    /// nodes join, the provider makes four calls per node at one moment. A provider that reads each
    /// machine every second makes one call per node and second.
    pub fn for_scenario(scenario: &Scenario) -> Self {
        let machines = u64::from(scenario.topology.machines);
        Self {
            at_once: 10_000 + 40 * machines,
            calls: 200_000 + 2 * machines * scenario.horizon.as_secs(),
            processor: Duration::from_secs(300),
            wall: Duration::from_secs(1800),
            memory: 4 << 30,
        }
    }
}

/// Interval at which processor time, wall time and memory are checked.
const TICK: Duration = Duration::from_millis(250);
/// Time after an exceeded bound until the process ends, if the run has not ended by then. Such a
/// run never yields, so nothing else can end it.
const EXIT_AFTER: Duration = Duration::from_secs(30);

/// Bound that a provider exceeded, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededBound {
    /// Maximum number of calls at one moment.
    AtOnce(u64),
    /// Maximum number of calls.
    Calls(u64),
    /// Maximum processor time.
    Processor(Duration),
    /// Maximum wall time.
    Wall(Duration),
    /// Maximum growth of memory, in bytes.
    Memory(u64),
}

impl fmt::Display for ExceededBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce(n) => write!(f, "more than {n} calls while no time passed"),
            Self::Calls(n) => write!(f, "more than {n} calls"),
            Self::Processor(time) => {
                write!(f, "more than {} s of processor time", time.as_secs())
            }
            Self::Wall(wall) => write!(f, "more than {} s of wall time", wall.as_secs()),
            Self::Memory(bytes) => write!(f, "more than {} MiB of memory", bytes >> 20),
        }
    }
}

/// Counts the calls of a run and notes the first exceeded bound. Clones share the counters.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    bounds: Bounds,
    spent: Arc<Mutex<CallCounts>>,
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct CallCounts {
    calls: u64,
    at_once: u64,
    last: Option<Instant>,
    passed: Option<ExceededBound>,
}

impl Guard {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, spent: Arc::default(), over: CancellationToken::new() }
    }

    /// Counts a call; true if it may be made, because no bound is exceeded.
    fn admits(&self) -> bool {
        let now = Instant::now();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.at_once = if spent.last == Some(now) { spent.at_once + 1 } else { 1 };
        spent.last = Some(now);
        let Bounds { at_once, calls, .. } = self.bounds;
        let passed = if spent.at_once > at_once {
            ExceededBound::AtOnce(at_once)
        } else if spent.calls > calls {
            ExceededBound::Calls(calls)
        } else {
            return spent.passed.is_none();
        };
        drop(spent);
        self.exceed(passed);
        false
    }

    /// Ends the run if `calls`, the number of records in the ledger, exceeds the bound on calls.
    /// The lab uses this for processes, whose calls do not pass [`GuardedService`].
    pub(super) fn counted(&self, calls: u64) {
        if calls > self.bounds.calls {
            self.exceed(ExceededBound::Calls(self.bounds.calls));
        }
    }

    fn exceed(&self, passed: ExceededBound) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.passed.get_or_insert(passed);
        drop(spent);
        self.over.cancel();
    }

    /// Completes when the provider exceeds a bound.
    ///
    /// Cancel safe.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Returns the bound that the provider exceeded first, or `None`.
    pub(super) fn exceeded(&self) -> Option<ExceededBound> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).passed
    }

    /// Wraps a service to count its calls.
    pub(super) fn around<S>(&self, inner: S) -> GuardedService<S> {
        GuardedService { inner, guard: self.clone() }
    }
}

/// A service that counts calls. It never answers calls beyond a bound.
#[derive(Clone, Debug)]
pub(super) struct GuardedService<S> {
    inner: S,
    guard: Guard,
}

impl<S, R> Service<R> for GuardedService<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        if self.guard.admits() {
            Box::pin(self.inner.call(request))
        } else {
            Box::pin(std::future::pending())
        }
    }
}

/// Checks the times and the memory of a run from another thread, until this value is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the thread. The caller's thread is that of the run. If the system refuses a thread, times
    /// and memory stay unchecked.
    pub(super) fn begin(guard: &Guard, ledger: Ledger) -> Self {
        let (stop, stopped) = mpsc::channel();
        let guard = guard.clone();
        let tick = move || stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout);
        let clock = processor::clock_of_this_thread();
        let look = move || watch(&guard, &ledger, tick, Readings { processor: clock, resident });
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(look).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread ends when it sees that the sender is gone; the panic hook reports a panic
            // of it.
            let _ = thread.join();
        }
    }
}

/// Reads processor time and memory from the system. A function returns `None` if the system does not
/// report its value.
struct Readings<P, R> {
    /// Returns the processor time of the thread of the run.
    processor: P,
    /// Returns the memory of this process, in bytes.
    resident: R,
}

/// Checks the times and the memory at every tick, for as long as `tick` returns true. Ends this
/// process if the run has not ended within [`EXIT_AFTER`] after it exceeded a bound.
fn watch(
    guard: &Guard,
    ledger: &Ledger,
    mut tick: impl FnMut() -> bool,
    mut read: Readings<impl FnMut() -> Option<Duration>, impl FnMut() -> Option<u64>>,
) {
    let (time, size) = ((read.processor)(), (read.resident)());
    let (mut wall, mut deaf) = (Duration::ZERO, Duration::ZERO);
    let Bounds { processor, wall: longest, memory, .. } = guard.bounds;
    while tick() {
        wall += TICK;
        let spent = (read.processor)().zip(time).map(|(now, then)| now.saturating_sub(then));
        if spent.is_some_and(|it| it > processor) {
            guard.exceed(ExceededBound::Processor(processor));
        }
        if wall > longest {
            guard.exceed(ExceededBound::Wall(longest));
        }
        let grown = (read.resident)().zip(size).map(|(now, then)| now.saturating_sub(then));
        if grown.is_some_and(|it| it > memory) {
            guard.exceed(ExceededBound::Memory(memory));
        }
        if let Some(passed) = guard.exceeded() {
            deaf += TICK;
            if deaf > EXIT_AFTER {
                give_up(passed, ledger);
            }
        }
    }
}

/// Ends this process: a run that never yields holds its thread, and a thread cannot be ended.
#[expect(clippy::exit, reason = "nothing else ends a thread that never yields")]
fn give_up(passed: ExceededBound, ledger: &Ledger) {
    let records = ledger.records();
    let mut err = std::io::stderr().lock();
    // A failure of this output cannot be reported.
    let _ = writeln!(
        err,
        "FAIL: the provider ran away: {passed}, and it never yields; the last records:"
    );
    for record in &records[records.len().saturating_sub(30)..] {
        let _ = writeln!(err, "    {record}");
    }
    std::process::exit(1);
}

/// Returns the resident memory of this process in bytes, if the system reports it.
fn resident() -> Option<u64> {
    status_value("VmRSS:")
}

/// Returns the peak resident memory of this process in bytes, if the system reports it.
pub fn peak_resident() -> Option<u64> {
    status_value("VmHWM:")
}

/// Returns the value, in bytes, of the line of `/proc/self/status` that begins with `name`; `None`
/// if the file or the line cannot be read.
fn status_value(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests;
