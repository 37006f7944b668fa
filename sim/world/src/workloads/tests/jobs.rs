//! Tests of Jobs whose pods go before the Jobs end.

use super::*;

/// A Job whose pods complete when told.
fn job(world: &mut World, more: Value) {
    let completion = Completion::WhenTold;
    world.apply(at(0), Command::SetTiming { step: Step::PodComplete, completion }).unwrap();
    let mut spec = workload("100m", more);
    spec["template"]["spec"]["restartPolicy"] = "Never".into();
    spec.as_object_mut().unwrap().remove("selector");
    create(world, 1, "jobs.batch", "a", spec);
}

fn tell(world: &mut World, seconds: u64) {
    let tell = Command::Tell { step: Some(Step::PodComplete), machine: None };
    world.apply(at(seconds), tell).unwrap();
}

fn cordon(world: &mut World, seconds: u64, node: &str, unschedulable: bool) {
    let patch = json!({"spec": {"unschedulable": unschedulable}});
    write(world, seconds, Write::patch(Key::node(node), PatchKind::Merge, patch));
}

fn active(world: &World) -> String {
    let all = pods(world);
    let mut active = all.iter().filter(|pod| super::super::owned::is_active(pod));
    super::super::name(active.next().expect("the Job has a pod")).to_owned()
}

#[test]
fn a_job_counts_the_pods_that_have_gone_with_their_nodes() {
    let mut world = lab();
    cordon(&mut world, 1, "node-0002", true);
    job(&mut world, json!({"completions": 2}));
    world.advance(at(10));
    cordon(&mut world, 11, "node-0001", true);
    cordon(&mut world, 11, "node-0002", false);
    tell(&mut world, 12);
    world.advance(at(14));
    write(&mut world, 14, Write::delete(Key::node("node-0001")));
    world.advance(at(100));
    assert_eq!(pods(&world).len(), 1, "the first pod went with its Node");
    assert_eq!(get(&world, "jobs.batch", "a")["status"]["succeeded"], 1);
    tell(&mut world, 101);
    world.advance(at(104));
    let status = &get(&world, "jobs.batch", "a")["status"];
    assert_eq!(status["succeeded"], 2, "{status}");
    assert_eq!(status["conditions"][1]["type"], "Complete", "{status}");
    write(&mut world, 105, Write::delete(Key::node("node-0002")));
    world.advance(at(200));
    assert_eq!(pods(&world).len(), 0);
    assert_eq!(get(&world, "jobs.batch", "a")["status"]["succeeded"], 2);
}

#[test]
fn failures_add_up_to_the_limit_though_the_pods_go() {
    let mut world = lab();
    job(&mut world, json!({"completions": 1, "backoffLimit": 1}));
    for (n, seconds) in [(1, 10), (2, 30)] {
        world.advance(at(seconds));
        let key = Key::new("pods", "default", active(&world));
        let failed = json!({"status": {"phase": "Failed"}});
        let patch = Write::patch(key.clone(), PatchKind::Merge, failed).on_status();
        write(&mut world, seconds, patch);
        world.advance(at(seconds + 3));
        write(&mut world, seconds + 3, Write::delete(key));
        world.advance(at(seconds + 15));
        let status = &get(&world, "jobs.batch", "a")["status"];
        assert_eq!(status["failed"], n, "{status}");
    }
    let status = &get(&world, "jobs.batch", "a")["status"];
    assert_eq!(status["conditions"][1]["type"], "Failed", "{status}");
    assert_eq!(pods(&world).len(), 0);
}

#[test]
fn a_running_pod_that_goes_with_its_node_has_failed() {
    let mut world = lab();
    cordon(&mut world, 1, "node-0002", true);
    job(&mut world, json!({"completions": 1}));
    world.advance(at(10));
    cordon(&mut world, 11, "node-0002", false);
    write(&mut world, 11, Write::delete(Key::node("node-0001")));
    world.advance(at(70));
    let status = &get(&world, "jobs.batch", "a")["status"];
    assert_eq!((&status["failed"], &status["active"]), (&1.into(), &1.into()), "{status}");
}

#[test]
fn the_pods_of_a_job_that_is_suspended_deleted_or_orphaned_are_released() {
    for case in ["suspended", "deleted", "orphaned"] {
        let mut world = lab();
        job(&mut world, json!({"completions": 2, "parallelism": 2}));
        world.advance(at(10));
        assert_eq!(pods(&world).len(), 2);
        let key = Key::new("jobs.batch", "default", "a");
        let suspend = json!({"spec": {"suspend": true}});
        let command = match case {
            "suspended" => Write::patch(key, PatchKind::Merge, suspend),
            "deleted" => Write::delete(key),
            _ => with_propagation(Write::delete(key), crate::objects::Propagation::Orphan),
        };
        write(&mut world, 11, command);
        world.advance(at(60));
        if case == "orphaned" {
            assert_eq!(pods(&world).len(), 2);
            assert!(pods(&world).iter().all(|pod| pod["metadata"]["finalizers"].is_null()));
            continue;
        }
        assert_eq!(pods(&world).len(), 0, "{case}");
        if case == "suspended" {
            let status = &get(&world, "jobs.batch", "a")["status"];
            assert_eq!(status["failed"], Value::Null, "a suspension is not a failure: {status}");
        }
    }
}
