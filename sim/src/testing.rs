//! Tests against a sim: virtual time, a separate world, and the ledger in the message of a failure.
//!
//! [`sim::test!`](crate::test) is for tests of any crate. It calls [`run`], which also serves tests
//! that have their own runtime or test harness.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

use crate::{Builder, Sim};

/// Virtual time that a body may take: one day. A test that waits for something that never comes
/// fails here, with the ledger, and need not be killed.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of ledger lines in a failure message; the last ones explain the failure.
const SHOWN: usize = 400;

/// Declares tests, each with a paused clock and a new world. The message of a failure shows the ledger.
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
/// The crate that uses the macro adds the paused clock to its own dev-dependencies, so that no program contains it:
///
/// ```toml
/// [dev-dependencies]
/// sim = "…"
/// tokio = { version = "1", features = ["rt", "time", "test-util"] }
/// ```
///
/// Time passes when every task waits. Services and pipes work well with that, because they need no
/// socket. Over sockets the clock would run away while bytes are on their way.
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

/// Return type of the body of a test.
pub trait Verdict {
    /// Reason for the failure, if any.
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
/// If the body panics, returns `Err` or takes more than a day of virtual time. The message is that
/// of the panic or error, followed by the ledger.
pub async fn run<V: Verdict>(builder: Builder, body: impl AsyncFnOnce(&Sim) -> V) {
    let sim = builder.start();
    let limited = tokio::time::timeout(LIMIT, body(&sim));
    // After a panic nothing of the body is used, and the ledger is consistent under its lock.
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

/// Evidence of a failed test: the seed, the ledger, and the number of times each rule fired.
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
