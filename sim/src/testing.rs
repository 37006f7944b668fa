//! Tests against a sim: virtual time, a world of their own, and the ledger in the message of a failure.
//!
//! [`sim::test!`](crate::test) is for tests of any crate; [`run`] is what it stands on, for those who
//! have a runtime or a test harness of their own.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

use crate::{Builder, Sim};

/// Virtual time that a body may take. What waits for something that never comes ends here, with the
/// ledger, and not when somebody kills the run.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Lines of the ledger in a failure message; the end is what explains it.
const SHOWN: usize = 400;

/// Tests, each with a paused clock and a fresh world. If one fails, its message shows the ledger.
///
/// A test fails when it panics, when it returns `Err`, or when a day of virtual time has passed. The
/// world is the standard inventory under seed 0, unless a [`Builder`] says otherwise:
///
/// ```
/// use sim::Sim;
/// use sim::world::{Command, Nodes, Topology};
///
/// sim::test! {
///     /// Attributes go before a test, as usual.
///     async fn nobody_has_called_yet(sim: &Sim) {
///         assert_eq!(sim.ledger().counts().total(), 0);
///     }
///
///     async fn a_machine_is_off(
///         sim: &Sim = Sim::builder().topology(Topology::zones(2).machines(3)).seed(7)
///     ) -> Result<(), sim::world::Fault> {
///         sim.apply(Command::PowerOff("node-0001".into()))?;
///         // `sim.vcenter("vc0")` and `sim.cluster()` give services and pipes to let a provider in.
///         Ok(())
///     }
/// }
/// # fn main() {}
/// ```
///
/// The crate that uses it brings the paused clock, so that no program of anybody's contains it:
///
/// ```toml
/// [dev-dependencies]
/// sim = "…"
/// tokio = { version = "1", features = ["rt", "time", "test-util"] }
/// ```
///
/// Time passes when every task waits. That goes well with services and pipes, which need no socket;
/// over sockets the clock would run away while bytes are on their way.
#[macro_export]
macro_rules! test {
    (@builder) => { $crate::Sim::builder() };
    (@builder $builder:expr) => { $builder };
    (@result) => { () };
    (@result $result:ty) => { $result };
    ($(
        $(#[$attribute:meta])*
        async fn $name:ident($sim:ident: $kind:ty $(= $builder:expr)?) $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$attribute])*
        #[::core::prelude::v1::test]
        fn $name() {
            ::tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("the system has room for a runtime")
                .block_on($crate::testing::run(
                    $crate::test!(@builder $($builder)?),
                    async |$sim: $kind| -> $crate::test!(@result $($result)?) { $body },
                ));
        }
    )*};
}

/// What the body of a test returns.
pub trait Verdict {
    /// Why it failed, if it did.
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

/// Starts a sim and runs `body` on it. Under a paused clock that is virtual time.
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
/// If the body panics, returns `Err` or takes more than a day. The message is what it said, followed
/// by the ledger.
pub async fn run<V: Verdict>(builder: Builder, body: impl AsyncFnOnce(&Sim) -> V) {
    let sim = builder.start();
    let limited = tokio::time::timeout(LIMIT, body(&sim));
    // Nothing of the body is used after a panic; the ledger is whole under its lock.
    let failure = match AssertUnwindSafe(limited).catch_unwind().await {
        Ok(Ok(verdict)) => verdict.failure(),
        Ok(Err(_)) => Some("the test waits for something that does not come within a day".into()),
        Err(panic) => Some(said(panic.as_ref())),
    };
    if let Some(failure) = failure {
        panic!("{failure}\n\n{}", Evidence(&sim));
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the test panicked".to_owned())
}

/// What a failed test leaves: how to begin the same way, and what happened.
struct Evidence<'a>(&'a Sim);

impl fmt::Display for Evidence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(sim) = self;
        let seed = sim.world().read(|world| world.ids().seed());
        let records = sim.ledger().records();
        let n_hidden = records.len().saturating_sub(SHOWN);
        writeln!(f, "the ledger (seed {seed}, {} records):", records.len())?;
        if n_hidden > 0 {
            writeln!(f, "… {n_hidden} earlier ones; `sim.ledger().to_jsonl()` has them all")?;
        }
        records.iter().skip(n_hidden).try_for_each(|record| writeln!(f, "{record}"))?;
        let fired = sim.fired();
        fired.iter().try_for_each(|(rule, n)| writeln!(f, "rule {rule} fired {n} times"))
    }
}
