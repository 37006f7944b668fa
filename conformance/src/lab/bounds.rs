//! What a provider may spend in one case. A provider that runs away does not take the lab along.
//!
//! In virtual time no clock stops a loop: one that calls without waiting, or waits for nothing, is at the same moment for
//! ever. So calls are counted, by moment and in all, and a thread beside the run looks at wall time and memory. Passing a
//! bound ends the case, and is a verdict with a transcript.

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

/// How much a case may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Calls while no time passes.
    pub at_once: u64,
    /// Calls in all.
    pub calls: u64,
    /// Wall time.
    pub wall: Duration,
    /// By how much the memory of this process may grow, in bytes.
    pub memory: u64,
}

impl Bounds {
    /// What is enough for every provider that does its work: five thousand nodes that join make four calls each while no
    /// time passes, and one that asks about every node every second makes one per node and second.
    pub fn of(scenario: &Scenario) -> Self {
        let machines = u64::from(scenario.topology.machines);
        Self {
            at_once: 10_000 + 40 * machines,
            calls: 200_000 + 2 * machines * scenario.horizon.as_secs(),
            wall: Duration::from_secs(300),
            memory: 4 << 30,
        }
    }
}

/// How often wall time and memory are looked at.
const TICK: Duration = Duration::from_millis(250);
/// A run that has not ended so long after it was told to never yields, and nothing else can end it.
const DEAF: Duration = Duration::from_secs(30);

/// A bound that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// So many calls while no time passed.
    AtOnce(u64),
    /// So many calls.
    Calls(u64),
    /// So much wall time.
    Wall(Duration),
    /// So many bytes.
    Memory(u64),
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce(n) => write!(f, "more than {n} calls while no time passed"),
            Self::Calls(n) => write!(f, "more than {n} calls"),
            Self::Wall(wall) => write!(f, "more than {} s of wall time", wall.as_secs()),
            Self::Memory(bytes) => write!(f, "more than {} MiB of memory", bytes >> 20),
        }
    }
}

/// Counts what is spent. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    bounds: Bounds,
    spent: Arc<Mutex<Spent>>,
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct Spent {
    calls: u64,
    at_once: u64,
    last: Option<Instant>,
    passed: Option<Passed>,
}

impl Guard {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, spent: Arc::default(), over: CancellationToken::new() }
    }

    /// Counts a call; whether it may be made.
    fn admits(&self) -> bool {
        let now = Instant::now();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.at_once = if spent.last == Some(now) { spent.at_once + 1 } else { 1 };
        spent.last = Some(now);
        let Bounds { at_once, calls, .. } = self.bounds;
        let passed = if spent.at_once > at_once {
            Passed::AtOnce(at_once)
        } else if spent.calls > calls {
            Passed::Calls(calls)
        } else {
            return spent.passed.is_none();
        };
        drop(spent);
        self.pass(passed);
        false
    }

    /// Says that a ledger has so many records: what processes call is not seen by [`Guarded`].
    pub(super) fn counted(&self, calls: u64) {
        if calls > self.bounds.calls {
            self.pass(Passed::Calls(self.bounds.calls));
        }
    }

    fn pass(&self, passed: Passed) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.passed.get_or_insert(passed);
        drop(spent);
        self.over.cancel();
    }

    /// Completes when a bound is passed.
    ///
    /// Cancel safe.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// The bound that was passed first.
    pub(super) fn passed(&self) -> Option<Passed> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).passed
    }

    /// The service, counted.
    pub(super) fn around<S>(&self, inner: S) -> Guarded<S> {
        Guarded { inner, guard: self.clone() }
    }
}

/// A service whose calls are counted. Beyond a bound they are never answered.
#[derive(Clone, Debug)]
pub(super) struct Guarded<S> {
    inner: S,
    guard: Guard,
}

impl<S, R> Service<R> for Guarded<S>
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

/// Looks at wall time and memory from beside a run, until it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to look. Without a thread, which a system may refuse, nobody does.
    pub(super) fn begin(guard: &Guard, ledger: Ledger) -> Self {
        let (stop, stopped) = mpsc::channel();
        let guard = guard.clone();
        let look = move || watch(&guard, &ledger, &stopped);
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(look).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // It ends as soon as it sees that the sender is gone; a panic of it is told by the hook.
            let _ = thread.join();
        }
    }
}

fn watch(guard: &Guard, ledger: &Ledger, stopped: &mpsc::Receiver<()>) {
    let before = resident();
    let (mut wall, mut deaf) = (Duration::ZERO, Duration::ZERO);
    let Bounds { wall: longest, memory, .. } = guard.bounds;
    while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        wall += TICK;
        if wall > longest {
            guard.pass(Passed::Wall(longest));
        }
        if resident().zip(before).is_some_and(|(now, before)| now.saturating_sub(before) > memory) {
            guard.pass(Passed::Memory(memory));
        }
        if let Some(passed) = guard.passed() {
            deaf += TICK;
            if deaf > DEAF {
                give_up(passed, ledger);
            }
        }
    }
}

/// Ends this process: a run that never yields holds its thread, and no thread can be ended.
#[expect(clippy::exit, reason = "nothing else ends a thread that never yields")]
fn give_up(passed: Passed, ledger: &Ledger) {
    let records = ledger.records();
    let mut err = std::io::stderr().lock();
    // There is nobody left to tell if this fails.
    let _ = writeln!(
        err,
        "FAIL: the provider ran away: {passed}, and it never yields; the last records:"
    );
    for record in &records[records.len().saturating_sub(30)..] {
        let _ = writeln!(err, "    {record}");
    }
    std::process::exit(1);
}

/// Resident memory of this process in bytes, where the system tells it.
fn resident() -> Option<u64> {
    told("VmRSS:")
}

/// The most that this process ever had resident, in bytes, where the system tells it.
pub fn peak_resident() -> Option<u64> {
    told("VmHWM:")
}

/// What Linux tells of this process under that name, in bytes.
fn told(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use sim::world::Topology;

    use super::*;
    use crate::judge::{Invariant, safety};
    use crate::lab::{Run, Stage, run_within};
    use crate::scenario::Scenario;

    fn scenario(horizon: Duration) -> Scenario {
        Scenario::new("", Topology::zones(1).machines(5), horizon)
    }

    fn ran_away(change: impl FnOnce(&mut Bounds)) -> Run {
        let scenario = scenario(Duration::from_secs(90 * 24 * 3600));
        let mut bounds = Bounds::of(&scenario);
        change(&mut bounds);
        run_within(&scenario, &Stage::default(), bounds)
    }

    #[test]
    fn a_provider_that_calls_too_often_ends_its_case_with_a_verdict() {
        type Change = fn(&mut Bounds);
        for (change, said) in [
            ((|it| it.at_once = 10) as Change, "10 calls while no time passed"),
            (|it| it.calls = 40, "more than 40 calls"),
            (|it| it.wall = Duration::ZERO, "0 s of wall time"),
        ] {
            let run = ran_away(change);
            let found = safety(&run);
            let told = found.iter().find(|it| it.invariant == Invariant::NoPanic);
            assert!(told.is_some_and(|it| it.text.contains(said)), "{said}: {found:?}");
            assert!(run.calls().next().is_some(), "the transcript is there");
        }
    }

    #[test]
    fn a_provider_within_its_bounds_is_not_disturbed() {
        let scenario = scenario(Duration::from_secs(60));
        let run = run_within(&scenario, &Stage::default(), Bounds::of(&scenario));
        assert_eq!(run.passed, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_without_a_wait_is_stopped_by_its_calls() {
        let bounds = Bounds::of(&scenario(Duration::from_secs(60)));
        let guard = Guard::new(Bounds { at_once: 1000, ..bounds });
        let echo = tower::service_fn(|n: u32| async move { Ok::<u32, ()>(n) });
        let mut service = guard.around(echo);
        let spin = async {
            loop {
                let _ = service.call(1).await;
            }
        };
        tokio::select! {
            biased;
            () = guard.over() => {}
            () = spin => {}
        }
        assert_eq!(guard.passed(), Some(Passed::AtOnce(1000)));
    }
}
