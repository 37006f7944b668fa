//! Tests of the rule action `read.stale`, with which reads return an earlier state.

use serde_json::json;
use sim::Face;
use sim::faults::{Action, Rule, check};
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, Named};

use crate::client::{SEARCH, lab};

const PATH: &str = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";

#[tokio::test(start_paused = true)]
async fn a_stale_read_shows_a_deleted_machine_until_the_next_change() {
    let (sim, mut client) = lab(3).await;
    let machine = client.machine("node-0001").await;
    sim.fault(Rule::new("lag", [Action::ReadStale(1)]).op(["FindByInventoryPath"])).unwrap().keep();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    sim.apply(Command::DeleteMachine(Named::from("node-0001"))).unwrap();
    let found = client.call("FindByInventoryPath", SEARCH, PATH).await.reference().1;
    assert_eq!(found, machine, "the read does not show that the machine is destroyed");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    sim.apply(Command::DeleteMachine(Named::from("node-0002"))).unwrap();
    let found = client.call("FindByInventoryPath", SEARCH, PATH).await.returned();
    assert!(found.is_none(), "the read shows the change before the last one");
    sim.heal();
    let path = PATH.replace("0001", "0002");
    assert!(client.call("FindByInventoryPath", SEARCH, &path).await.returned().is_none());
}

/// Each change writes a ConfigMap of 1 MB.
#[tokio::test(start_paused = true)]
async fn the_log_keeps_at_most_64_mib_and_only_while_a_stale_read_rule_exists() {
    let (sim, _) = lab(1).await;
    let n_kept = || sim.world().read(|world| world.log().entries().count());
    let write = |n: usize| {
        let maps = GroupResource::core("configmaps");
        let data = json!({"data": {"a": format!("{n}{}", "x".repeat(1_000_000))}});
        let command = match n {
            0 => {
                let mut map = data;
                map["metadata"] = json!({"name": "large"});
                objects::Command::create(maps, "default", map)
            }
            _ => {
                objects::Command::patch(Key::new(maps, "default", "large"), PatchKind::Merge, data)
            }
        };
        sim.apply(Command::Cluster(command)).unwrap();
    };
    write(0);
    assert_eq!(n_kept(), 0);
    sim.fault(Rule::new("lag", [Action::ReadStale(1)]).op(["FindByUuid"])).unwrap().keep();
    for n in 1..100 {
        write(n);
    }
    assert_eq!(n_kept(), 67);
    sim.heal();
    assert_eq!(n_kept(), 0);
}

#[test]
fn a_stale_read_rule_that_cannot_change_an_answer_is_refused() {
    let refused = check(&Rule::new("lag", [Action::ReadStale(0)])).unwrap_err();
    assert_eq!(refused, "rule `lag`: read.stale is 0, which is the current state; write 1 or more");
    for operation in ["Login", "WaitForUpdatesEx", "cis.session.get", "patch nodes"] {
        let refused = check(&Rule::new("lag", [Action::ReadStale(1)]).op(["Find*", operation]));
        let why = format!(
            "rule `lag`: {operation} always answers from the current state, so read.stale cannot change it; remove it from match.op"
        );
        assert_eq!(refused, Err(why));
    }
    let of_another = Rule::new("lag", [Action::ReadStale(1)]).on(Face::Cluster).op(["FindByUuid"]);
    assert!(check(&of_another).is_err(), "FindByUuid is not an operation of the cluster");
}
