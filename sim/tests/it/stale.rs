//! Tests of reads that show the state before the last change.

use serde_json::json;
use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, Named};

use crate::client::{SEARCH, lab};

const PATH: &str = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";

#[tokio::test(start_paused = true)]
async fn a_stale_read_shows_a_deleted_machine_until_the_next_change() {
    let (sim, mut client) = lab(3).await;
    let machine = client.machine("node-0001").await;
    sim.fault(Rule::new("lag", [Action::ReadStale(1)]).op(["FindByInventoryPath"])).unwrap();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    sim.apply(Command::DeleteMachine(Named::from("node-0001"))).unwrap();
    let found = client.call("FindByInventoryPath", SEARCH, PATH).await.reference().1;
    assert_eq!(found, machine, "the machine is destroyed; the last change is not seen");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    sim.apply(Command::DeleteMachine(Named::from("node-0002"))).unwrap();
    let found = client.call("FindByInventoryPath", SEARCH, PATH).await.returned();
    assert!(found.is_none(), "now the change before the last is seen");
    sim.heal();
    let path = PATH.replace("0001", "0002");
    assert!(client.call("FindByInventoryPath", SEARCH, &path).await.returned().is_none());
}

/// The changes are versions of one ConfigMap of 1 MB.
#[tokio::test(start_paused = true)]
async fn the_past_is_kept_up_to_64_mib_and_as_long_as_a_rule_shows_it() {
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
    sim.fault(Rule::new("lag", [Action::ReadStale(1)]).op(["FindByUuid"])).unwrap();
    for n in 1..100 {
        write(n);
    }
    assert_eq!(n_kept(), 67);
    sim.heal();
    assert_eq!(n_kept(), 0);
}

#[test]
fn a_stale_read_rule_that_cannot_change_an_answer_is_refused() {
    let refused = Rule::new("lag", [Action::ReadStale(0)]).check().unwrap_err();
    assert_eq!(refused, "rule `lag`: read.stale is 0, which is the present; count from 1");
    for operation in ["Login", "WaitForUpdatesEx", "cis.session.get", "patch nodes"] {
        let refused = Rule::new("lag", [Action::ReadStale(1)]).op(["Find*", operation]).check();
        let why = format!(
            "rule `lag`: {operation} shows nothing that could be old, so read.stale cannot change it; leave it out of match.op"
        );
        assert_eq!(refused, Err(why));
    }
    let of_another = Rule::new("lag", [Action::ReadStale(1)]).on(Face::Cluster).op(["FindByUuid"]);
    assert!(of_another.check().is_err(), "no operation of that API");
}
