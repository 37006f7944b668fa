//! The macro [`test!`](crate::test), apart from the public module `testing`, so that the
//! documentation shows it only at the root of the crate.

/// Declares tests, each with a paused clock and a new world. The message of a failed test shows the
/// last 400 records of the ledger.
///
/// A test fails when it panics, when it returns `Err`, or when a day of virtual time has passed.
/// The world has the standard inventory and seed 0, unless a [`Builder`](crate::Builder) sets
/// others:
///
/// ```
/// use sim::Sim;
/// use sim::world::{Command, Nodes, Topology};
///
/// sim::test! {
///     /// Doc comments and attributes of a test stand before it, as usual.
///     async fn a_new_world_has_no_calls(sim: &Sim) {
///         assert_eq!(sim.ledger().counts().total(), 0);
///     }
///
///     async fn a_machine_is_off(
///         sim: &Sim = Sim::builder().topology(Topology::zones(2).machines(3)).seed(7)
///     ) -> Result<(), sim::world::Fault> {
///         sim.apply(Command::PowerOff("node-0001".into()))?;
///         // `sim.vcenter("vc0")` and `sim.cluster()` are servers. Connect a provider to them with
///         // `service` or `pipe`.
///         Ok(())
///     }
/// }
/// # fn main() {}
/// ```
///
/// The crate that uses the macro enables tokio's paused clock (`test-util`) in its dev-dependencies
/// only, so that no released program contains it. A test without sockets needs no feature of
/// `vsphere-sim`:
///
/// ```toml
/// [dev-dependencies]
/// vsphere-sim = { version = "0.1", default-features = false }
/// tokio = { version = "1", features = ["rt", "time", "test-util"] }
/// ```
///
/// The paused clock advances whenever every task waits. Services and pipes work with this clock,
/// because they need no socket. With sockets, the clock would jump ahead while bytes are in
/// transit.
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
                .expect("a tokio runtime")
                .block_on($crate::testing::run(
                    $crate::test!(@builder $($builder)?),
                    async |$sim: $kind| -> $crate::test!(@result $($result)?) { $body },
                ));
        }
    )*};
}
