//! Harness for tests against a sim: virtual time, a world per test, and the ledger in the message
//! of a failed test.
//!
//! [`sim::test!`](crate::test) is for tests of any crate. It calls [`run`], which also serves tests
//! that have their own runtime or test harness.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

use crate::{Builder, Sim};

/// Maximum time of a test body on the runtime's clock: one day. A test that would wait forever
/// fails after this time and shows the ledger.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of ledger records in a failure message. The message shows the last records,
/// because they explain the failure.
const SHOWN: usize = 400;

/// Return type of the body of a test.
pub trait Verdict {
    /// Returns the reason for which the test failed; `None` if it passed.
    fn failure(self) -> Option<String>;
}

impl Verdict for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Debug> Verdict for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error:?}"))
    }
}

/// Starts a sim and runs `body` on it. Under a paused clock the sim uses virtual time.
///
/// ```
/// let mut runtime = tokio::runtime::Builder::new_current_thread();
/// let runtime = runtime.enable_all().start_paused(true).build().unwrap();
/// runtime.block_on(sim::testing::run(sim::Sim::builder(), async |sim| {
///     tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
///     assert_eq!(sim.world().now().since_start().as_secs(), 3600);
/// }));
/// ```
///
/// # Panics
/// If the body panics, returns `Err` or takes more than a day of the runtime's time. The message
/// gives the reason, the last 400 records of the ledger, and how often each rule fired.
pub async fn run<V: Verdict>(builder: Builder, body: impl AsyncFnOnce(&Sim) -> V) {
    let sim = builder.start();
    let limited = tokio::time::timeout(LIMIT, body(&sim));
    // Unwind safe: after a panic the message only reads the sim, whose locks keep it consistent.
    let failure = match AssertUnwindSafe(limited).catch_unwind().await {
        Ok(Ok(verdict)) => verdict.failure(),
        Ok(Err(_)) => Some("the test did not end within a day of its clock".into()),
        Err(panic) => Some(panic_message(panic.as_ref())),
    };
    if let Some(failure) = failure {
        panic!("{failure}\n\n{}", Evidence(&sim));
    }
}

/// Returns the message of a panic; a general text if the panic has no text.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the test panicked".to_owned())
}

/// Evidence of a failed test: the seed, the last records of the ledger, and the number of times
/// that each rule fired.
struct Evidence<'a>(&'a Sim);

impl fmt::Display for Evidence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(sim) = self;
        let seed = sim.world().read(|world| world.ids().seed());
        let records = sim.ledger().records();
        let n_hidden = records.len().saturating_sub(SHOWN);
        writeln!(f, "the ledger (seed {seed}, {} records):", records.len())?;
        if n_hidden > 0 {
            writeln!(f, "… {n_hidden} earlier records; `sim.ledger().to_jsonl()` has all")?;
        }
        records.iter().skip(n_hidden).try_for_each(|record| writeln!(f, "{record}"))?;
        let fired = sim.fired();
        fired.iter().try_for_each(|(rule, n)| writeln!(f, "rule {rule} fired {n} times"))
    }
}
