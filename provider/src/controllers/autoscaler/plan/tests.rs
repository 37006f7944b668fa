//! Tests of the decisions about the size of a group.

use super::*;
use crate::controllers::autoscaler::{
    group::{MachineKind, parse},
    instance::{Failure, FailureClass},
};

fn group(min: u32, max: u32) -> Group {
    let text = format!(
        "groups:\n- {{name: g, min: {min}, max: {max}, machine: {{className: c, imageName: i, \
         storageClass: s, bootstrap: {{secretName: b}}}}}}"
    );
    parse("f", &text, &MachineKind::virtual_machines("ns")).unwrap().groups.remove(0)
}

fn id(n: u8) -> InstanceId {
    InstanceId::new(&n.to_string())
}

/// Instances numbered from 1, one per letter: `r` running, `c` creating, `m` creating with a
/// machine, `f` failed, `d` deleting.
fn instances(states: &str) -> Vec<Instance> {
    let failure =
        || Failure { code: "X".to_owned(), message: "x".to_owned(), class: FailureClass::Other };
    let state = |letter| match letter {
        'r' => State::Running,
        'f' => State::Failed(failure()),
        'd' => State::Deleting,
        _ => State::Creating,
    };
    let instance = |(n, letter): (u8, char)| Instance {
        id: id(n),
        name: format!("g-{n}"),
        state: state(letter),
        is_materialized: matches!(letter, 'r' | 'm' | 'd'),
    };
    (1..).zip(states.chars()).map(instance).collect()
}

#[test]
fn an_increase_is_never_clamped_and_never_exceeds_the_maximum() {
    let group = group(0, 5);
    for (target, delta, want) in
        [(0, 1, Some(1)), (0, 5, Some(5)), (3, 3, None), (5, 1, None), (3, i32::MAX, None)]
    {
        assert_eq!(
            increase(&group, target, delta).ok().map(|it| it.len()),
            want,
            "{target} {delta}"
        );
    }
    for delta in [0, -1, i32::MIN] {
        assert_eq!(increase(&group, 0, delta), Err(Refusal::IncreaseByNothing(delta)));
    }
    let refusal = increase(&group, 3, 3).unwrap_err().to_string();
    let want = "group VirtualMachine/ns/g has 3 instances, and 3 more exceed its maximum of 5";
    assert_eq!(refusal, want);
}

/// The request names nodes by the number of their instance; 90 belongs to another group, 91 was
/// deleted before, and 99 is unknown. `!` means that the autoscaler says that the creation failed.
fn deletion(min: u32, states: &str, names: &[&str]) -> Result<(Vec<u8>, usize), String> {
    let all = instances(states);
    let nodes: Vec<NamedNode> = names
        .iter()
        .map(|name| NamedNode {
            id: name.trim_end_matches('!').to_owned(),
            name: "n".to_owned(),
            failed_creation: name.ends_with('!'),
        })
        .collect();
    let membership = |node: &NamedNode| match node.id.parse::<u8>().unwrap() {
        90 => Membership::Elsewhere("other".to_owned()),
        91 => Membership::Deleted,
        n => all
            .iter()
            .find(|it| it.id == id(n))
            .map_or(Membership::Unknown, |it| Membership::Here(Box::new(it.clone()))),
    };
    match delete(&group(min, 9), target(&all), &nodes, membership) {
        Ok(it) => {
            let victims = it.victims.iter().map(|it| it.id.as_str().parse().unwrap()).collect();
            Ok((victims, it.replacements.len()))
        }
        Err(err) => Err(err.to_string()),
    }
}

#[test]
fn a_deletion_takes_exactly_the_named_instances_once() {
    for (min, states, names, want) in [
        (0, "rrr", &["2"][..], (vec![2], 0)),
        (0, "rrr", &["2", "2"], (vec![2], 0)),
        (0, "rrr", &[], (vec![], 0)),
        (0, "rrd", &["3"], (vec![], 0)),
        (0, "rrr", &["91", "1"], (vec![1], 0)),
        (2, "rrr", &["3"], (vec![3], 0)),
        // Failed creations at the minimum are replaced.
        (2, "rf", &["2!"], (vec![2], 1)),
        (2, "rc", &["2!"], (vec![2], 1)),
        (1, "rf", &["2!"], (vec![2], 0)),
        (2, "rff", &["2!", "3!"], (vec![2, 3], 1)),
        (1, "rrf", &["1", "3"], (vec![1, 3], 0)),
    ] {
        assert_eq!(deletion(min, states, names), Ok(want), "{min} {states} {names:?}");
    }
}

#[test]
fn a_deletion_with_one_wrong_node_is_refused_whole() {
    for (min, states, names, want) in [
        (0, "rrr", &["1", "99"][..], "node \"n\" with provider ID \"99\" is no instance"),
        (0, "rrr", &["1", "90"], "node \"n\" belongs to group other"),
        (3, "rrr", &["1"], "has 3 instances, and 1 fewer go below its minimum of 3"),
        (2, "rrr", &["1", "2"], "has 3 instances, and 2 fewer go below its minimum of 2"),
        // A machine that exists is no failed creation, whatever the autoscaler says.
        (2, "rm", &["2!"], "has 2 instances, and 1 fewer go below its minimum of 2"),
        (2, "rr", &["2!"], "has 2 instances, and 1 fewer go below its minimum of 2"),
    ] {
        let refusal = deletion(min, states, names).unwrap_err();
        assert!(refusal.contains(want), "{min} {states} {names:?}: {refusal}");
    }
}

#[test]
fn a_decrease_gives_up_machines_without_instance_first() {
    let group = group(0, 9);
    let giving = |delta| {
        let members = Members { instances: instances("rcm"), target: 5 };
        decrease(&group, &members, delta).map(|it| (it.n_without_instance, it.victims.len())).ok()
    };
    let given: Vec<_> = (-4..0).rev().map(giving).collect();
    assert_eq!(given, [Some((1, 0)), Some((2, 0)), Some((2, 1)), None]);
}

#[test]
fn a_decrease_gives_up_only_instances_without_machine() {
    let group = group(0, 9);
    let ids = |states: &str, delta| {
        decrease(&group, &Members::counted(instances(states)), delta)
            .map(|giving| {
                giving.victims.iter().map(|it| it.id.as_str().parse().unwrap()).collect::<Vec<u8>>()
            })
            .map_err(|err| err.to_string())
    };
    assert_eq!(ids("rcc", -1), Ok(vec![3]));
    assert_eq!(ids("rcfc", -2), Ok(vec![3, 4]), "failed ones first, then the last");
    assert_eq!(ids("cc", -2), Ok(vec![2, 1]));
    assert_eq!(ids("rcd", -1), Ok(vec![2]), "an instance in deletion does not count");
    for (states, delta) in [("rr", -1), ("rmc", -2), ("", -1), ("rc", i32::MIN)] {
        let refusal = ids(states, delta).unwrap_err();
        assert!(refusal.contains("needs one of them deleted"), "{states}: {refusal}");
    }
    for delta in [0, 1] {
        assert_eq!(
            decrease(&group, &Members::default(), delta),
            Err(Refusal::DecreaseByNothing(delta))
        );
    }
}
