//! Tests of `sim::test!` from a user's side: virtual time passes at once, and the message of a
//! failure contains the ledger.

use std::time::Duration;

use sim::Sim;
use sim::faults::{Action, Rule};
use sim::world::{Command, Topology};

use crate::client::{Client, SEARCH};

sim::test! {
    async fn time_is_virtual(sim: &Sim) {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(sim.world().now().since_start(), Duration::from_secs(3600));
    }

    /// Without a builder, the sim has the standard inventory under seed 0.
    async fn a_test_without_a_builder_has_the_standard_inventory(sim: &Sim) {
        assert_eq!(Client::logged_in(sim).await.machine("DC0_H0_VM0").await, "vm-17");
    }

    async fn a_test_with_a_builder_begins_with_its_topology_and_seed(
        sim: &Sim = Sim::builder().topology(Topology::zones(2).machines(1)).seed(7)
    ) -> Result<(), sim::world::Fault> {
        assert_eq!(sim.world().read(|world| world.ids().seed()), 7);
        sim.apply(Command::PowerOff("node-0001".into()))?;
        Ok(())
    }

    #[should_panic(expected = "two and two")]
    async fn a_failed_test_reports_the_panic_of_its_body(_sim: &Sim) {
        panic!("two and two");
    }

    #[should_panic(expected = "vc0      FindByIp SearchIndex → 200")]
    async fn a_panic_shows_the_ledger(sim: &Sim) {
        find(sim).await;
        panic!("it went wrong");
    }

    #[should_panic(expected = "vc0      FindByIp SearchIndex → 200")]
    async fn an_error_shows_the_ledger(sim: &Sim) -> Result<(), &'static str> {
        find(sim).await;
        Err("it went wrong")
    }

    #[should_panic(expected = "did not end within a day of its clock")]
    async fn a_test_that_never_ends_fails_after_a_day(_sim: &Sim) {
        std::future::pending::<()>().await;
    }

    #[should_panic(expected = "rule refused fired 1 times")]
    async fn a_failed_test_reports_the_rules_that_fired(sim: &Sim) {
        let refused = Rule::new("refused", [Action::Reset]).op(["RetrieveServiceContent"]);
        sim.fault(refused).expect("the rule is valid").keep();
        let client = Client::new(sim);
        let content = ("ServiceInstance", "ServiceInstance");
        let envelope = crate::client::envelope("RetrieveServiceContent", content, "");
        let request = http::Request::post("/sdk").body(envelope).expect("the request is valid");
        let answer = tower::ServiceExt::oneshot(client.service, request).await;
        assert!(answer.is_ok(), "the rule resets the connection");
    }
}

async fn find(sim: &Sim) {
    let arguments = "<ip>10.0.0.1</ip><vmSearch>true</vmSearch>";
    Client::logged_in(sim).await.call("FindByIp", SEARCH, arguments).await.ok();
}

/// Checks the whole message: the failure, the command that reproduces it, and every call.
#[test]
fn the_message_of_a_failed_test_has_the_seed_and_every_call() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let failing = sim::testing::run(Sim::builder().seed(3), async |sim| {
        find(sim).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        sim.apply(Command::PowerOff("DC0_H0_VM0".into())).expect("the machine is on");
        assert_eq!(1, 2, "sums");
    });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(failing);
    }));
    let panic = caught.expect_err("the test fails");
    insta::assert_snapshot!(panic.downcast_ref::<String>().expect("a text"));
}
