//! Tests of lookups without calls: the state of a node after each answer.

use super::*;

const UUID: u128 = 0x4210_0000_0000_0000_0000_0000_0000_0001;

fn node(provider_id: Option<&str>) -> NodeIdentity {
    NodeIdentity {
        name: "a".into(),
        uid: "uid-a".into(),
        provider_id: provider_id.map(str::to_owned),
        system_uuid: None,
        reference: None,
        confirmed_gone: false,
    }
}

fn id() -> MachineId {
    MachineId::from_u128(UUID)
}

fn machine() -> MoRef {
    MoRef::new("VirtualMachine", "vm-1")
}

/// Returns a state with node `a`, whose lookup waits for the answer of every vCenter.
fn asked(n_vcenters: usize) -> State {
    let mut state = State::new(n_vcenters);
    let provider_id = format!("vsphere://{}", id());
    let effects = &mut Effects::default();
    assert!(state.observe(&node(Some(&provider_id)), effects));
    state.start_attempt(&"a".into(), Instant::now(), effects);
    state
}

/// Applies the answer of one vCenter to the running lookup.
fn answer(state: &mut State, vcenter: VcenterIndex, outcome: VcenterAnswer) -> Effects {
    let number = state.nodes["a"].attempt.as_ref().map_or(0, |it| it.number);
    let mut effects = Effects::default();
    state.answer(vcenter, &"a".into(), number, outcome, Instant::now(), &mut effects);
    effects
}

fn hit() -> VcenterAnswer {
    VcenterAnswer::Hit(machine(), id())
}

fn shown(present: bool) -> Machine {
    Machine { present, uuid: Some(id()), ..Machine::default() }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_found_is_neither_gone_nor_hidden_any_more() {
    let mut state = asked(1);
    let now = Instant::now();
    let tracked = state.nodes.get_mut("a").unwrap();
    (tracked.absence_proved_at, tracked.absent_since) = (Some(now), Some(now));
    tracked.unprovable = Some((Unknown::NotSeen, now));
    tracked.failure = Some(Unknown::NotSeen);
    let effects = answer(&mut state, VcenterIndex::FIRST, hit());
    let tracked = &state.nodes["a"];
    assert_eq!((tracked.absence_proved_at, tracked.absent_since), (None, None));
    assert!(tracked.unprovable.is_none() && tracked.failure.is_none() && tracked.matched);
    assert!(effects.view.contains(&VcenterIndex::FIRST) && effects.changed.contains("a"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_the_view_lost_is_removed_before_it_is_added_again() {
    for (in_view, present, is_lost) in
        [(true, false, true), (false, false, false), (true, true, false)]
    {
        let mut state = asked(1);
        let vcenter = &mut state.vcenters[VcenterIndex::FIRST];
        vcenter.machines.insert(machine(), shown(present));
        if in_view {
            vcenter.in_view.insert(machine());
        }
        answer(&mut state, VcenterIndex::FIRST, hit());
        let vcenter = &state.vcenters[VcenterIndex::FIRST];
        let case = format!("in view: {in_view}, present: {present}");
        assert_eq!(vcenter.lost.contains(&machine()), is_lost, "{case}");
        assert_eq!(vcenter.machines.contains_key(&machine()), present, "{case}");
        assert_eq!(vcenter.in_view.contains(&machine()), in_view && present, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_link_reports_no_change() {
    let mut state = asked(1);
    answer(&mut state, VcenterIndex::FIRST, hit());
    let linked_at = state.nodes["a"].linked_at;
    tokio::time::advance(Duration::from_secs(1)).await;
    state.start_attempt(&"a".into(), Instant::now(), &mut Effects::default());
    let effects = answer(&mut state, VcenterIndex::FIRST, hit());
    assert!(effects.changed.is_empty(), "{effects:?}");
    assert_eq!(state.nodes["a"].linked_at, linked_at);
}

#[tokio::test(start_paused = true)]
async fn a_provider_id_of_another_cloud_fails_as_not_ours_without_a_search() {
    let mut state = State::new(1);
    let effects = &mut Effects::default();
    state.observe(&node(Some("aws:///eu/i-1")), effects);
    state.start_attempt(&"a".into(), Instant::now(), effects);
    let failure = state.nodes["a"].failure.as_ref();
    assert!(matches!(failure, Some(Unknown::NotOurs(_))), "{failure:?}");
    assert!(effects.join.is_empty(), "no vCenter is asked");
}

#[tokio::test(start_paused = true)]
async fn a_hit_waits_for_slower_vcenters_and_not_for_those_in_trouble() {
    let mut state = asked(2);
    let effects = answer(&mut state, VcenterIndex::FIRST, hit());
    assert!(effects.grace && state.nodes["a"].link.is_none());
    let grace = Duration::from_secs(1);
    tokio::time::advance(Duration::from_millis(999)).await;
    state.decide_hits(Instant::now(), grace, &mut Effects::default());
    assert!(state.nodes["a"].link.is_none() && state.oldest_hit().is_some());
    tokio::time::advance(Duration::from_millis(1)).await;
    state.decide_hits(Instant::now(), grace, &mut Effects::default());
    assert!(state.nodes["a"].link.is_some() && state.oldest_hit().is_none());
    let mut state = asked(2);
    state.vcenters[VcenterIndex::SECOND].last_call_failed = true;
    let effects = answer(&mut state, VcenterIndex::FIRST, hit());
    assert!(!effects.grace && state.nodes["a"].link.is_some());
    // The slower vCenter has a machine with the same UUID, so the link was wrong.
    let number = 1;
    let mut effects = Effects::default();
    state.answer(VcenterIndex::SECOND, &"a".into(), number, hit(), Instant::now(), &mut effects);
    let tracked = &state.nodes["a"];
    assert!(tracked.link.is_none() && matches!(tracked.failure, Some(Unknown::Ambiguous(_))));
    assert!(effects.changed.contains("a"));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_searched_again_when_another_node_releases_its_machine() {
    let mut state = asked(1);
    answer(&mut state, VcenterIndex::FIRST, hit());
    let other = NodeIdentity { name: "b".into(), uid: "uid-b".into(), ..node(None) };
    let effects = &mut Effects::default();
    assert!(state.observe(&other, effects));
    state.start_attempt(&"b".into(), Instant::now(), effects);
    let number = state.nodes["b"].attempt.as_ref().unwrap().number;
    state.answer(VcenterIndex::FIRST, &"b".into(), number, hit(), Instant::now(), effects);
    assert!(matches!(state.nodes["b"].failure, Some(Unknown::Ambiguous(_))));

    let mut effects = Effects::default();
    state.forget(&"a".into(), &mut effects);
    assert!(state.nodes["b"].attempt.is_some() && effects.join.contains(&VcenterIndex::FIRST));

    let mut effects = Effects::default();
    state.forget(&"b".into(), &mut effects);
    assert!(state.vcenters[VcenterIndex::FIRST].awaited.is_empty() && effects.join.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_have_each_others_machines_exchange_them() {
    const N: usize = 3;
    let names = ["a", "b", "c"].map(NodeName::from);
    let id = |n: usize| MachineId::from_u128(UUID + n as u128);
    let hit = |n: usize, machine: usize| {
        VcenterAnswer::Hit(MoRef::new("VirtualMachine", format!("vm-{}", machine % N)), id(n))
    };
    let mut state = State::new(1);
    let effects = &mut Effects::default();
    for (n, name) in names.iter().enumerate() {
        let provider_id = format!("vsphere://{}", id(n));
        let uid = format!("uid-{name}").into();
        let node = NodeIdentity { name: name.clone(), uid, ..node(Some(&provider_id)) };
        state.observe(&node, effects);
    }
    // Each node is first linked to the machine of the next node, then to its own.
    for offset in [1, 0] {
        names.iter().for_each(|name| state.start_attempt(name, Instant::now(), effects));
        for _ in 0..2 {
            for (n, name) in names.iter().enumerate() {
                let open = state.nodes[name].attempt.as_ref().map(|it| it.number);
                let Some(number) = open else { continue };
                state.answer(
                    VcenterIndex::FIRST,
                    name,
                    number,
                    hit(n, n + offset),
                    Instant::now(),
                    effects,
                );
            }
        }
        for (n, name) in names.iter().enumerate() {
            let link = state.nodes[name].link.as_ref().unwrap();
            assert_eq!(link.machine.to_string(), format!("VirtualMachine:vm-{}", (n + offset) % N));
        }
    }
}
