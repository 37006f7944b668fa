//! Tests of the counts of PodDisruptionBudgets.

use super::*;

#[test]
fn a_budget_in_percent_counts_each_controller_once() {
    let owned_by = |uid: Value, name: &str| {
        json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true,
        }])
    };
    // Case, and the numbers of expected pods and of pods that must stay healthy.
    for (case, wanted) in [
        ("set", (4, 2)),
        ("deployment", (4, 2)),
        ("rollout", (4, 2)),
        // The real controller finds the scale of the ReplicaSet when the Deployment is another one.
        ("another deployment of this name", (4, 2)),
    ] {
        let mut world = lab();
        let kind = if case == "set" { "replicasets.apps" } else { "deployments.apps" };
        create(&mut world, 1, kind, "a", workload("100m", json!({"replicas": 4})));
        let budget = json!({"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}});
        create(&mut world, 1, "poddisruptionbudgets.policy", "b", budget);
        world.advance(at(6));
        let key = Key::new(kind, "default", "a");
        match case {
            "rollout" => {
                let completion = Completion::WhenTold;
                let held = Command::SetTiming { step: Step::PodStart, completion };
                world.apply(at(6), held).unwrap();
                let container = json!({"name": "c", "image": "i:2"});
                let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
                write(&mut world, 6, Write::patch(key, PatchKind::StrategicMerge, patch));
            }
            "another deployment of this name" => {
                let sets = resource("replicasets.apps");
                let set = world.cluster.all(&sets).next().unwrap().clone();
                let key = Key::new(sets, "default", super::super::name(&set));
                let owners = owned_by("another".into(), "a");
                let patch = json!({"metadata": {"ownerReferences": owners}});
                world.apply(at(6), Command::SetWorkloads { run: false }).unwrap();
                write(&mut world, 6, Write::patch(key, PatchKind::Merge, patch));
            }
            _ => {}
        }
        world.advance(at(8));
        let now = at(8).timestamp(world.epoch());
        let set_budget = super::super::budgets::settle(&world.cluster, now);
        for command in set_budget {
            write(&mut world, 8, command);
        }
        let n_pods = if case == "rollout" { 8 } else { 4 };
        assert_eq!(pods(&world).len(), n_pods, "{case}");
        let status = &get(&world, "poddisruptionbudgets.policy", "b")["status"];
        let counts = (&status["expectedPods"], &status["desiredHealthy"]);
        assert_eq!(counts, (&wanted.0.into(), &wanted.1.into()), "{case}: {status}");
    }
}
