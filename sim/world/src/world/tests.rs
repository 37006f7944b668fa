//! Tests of a resumed world, of the watch history of API servers, and of machine ids that change.

use std::time::Duration;

use crate::objects::{self, GroupResource, Key, Selection};
use crate::vcenter::{Data, SessionService};
use crate::{ADMINISTRATOR, Command, Named, Outcome, Time, Topology, VcRequest, World};

#[test]
fn a_resumed_world_forgets_open_calls_and_its_idle_sessions_expire() {
    let mut world = Topology::standard().build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    let mut ask = |seconds: u64, request: VcRequest| {
        let at = Time::after_start(Duration::from_secs(seconds));
        let command = Command::Request { vcenter: "vc0".into(), request };
        world.apply(at, command).expect("vc0 accepts the request").outcome
    };
    let login = VcRequest::Login {
        family: SessionService::Vapi,
        token: None,
        user: ADMINISTRATOR.to_owned(),
        password: password(),
        user_agent: String::new(),
    };
    let Outcome::Session(token) = ask(1, login) else { panic!("the login opened no session") };
    ask(2, VcRequest::CallBegan { token: token.clone() });
    let put_away = world.state().clone();
    let later = "2026-03-02T08:00:00Z".parse().unwrap();

    let mut world = World::restore(put_away.resumed_at(later));
    assert_eq!(Time::after_start(world.age()).timestamp(world.epoch()), later);
    let lives = |world: &World| world.vcenter("vc0").unwrap().logins.sessions.contains_key(&token);
    assert!(lives(&world), "sessions outlive a restart");
    world.advance(Time::after_start(Duration::from_secs(24 * 3600)));
    assert!(!lives(&world), "an idle session expires");
}

#[test]
fn an_api_server_drops_changes_after_some_minutes() {
    let mut world = Topology::standard().build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    let maps = || GroupResource::core("configmaps");
    let key = || Key::new(maps(), "default", "a");
    let at = |seconds: u64| Time::after_start(Duration::from_secs(seconds));
    let create =
        objects::Command::create(maps(), "default", serde_json::json!({"metadata": {"name": "a"}}));
    world.apply(at(1), Command::Cluster(create)).unwrap();
    let before = world.cluster.revision();
    for n in 0..2_000 {
        let patch = serde_json::json!({"data": {"n": n.to_string()}});
        let patch = objects::Command::patch(key(), objects::PatchKind::Merge, patch);
        world.apply(at(2), Command::Cluster(patch)).unwrap();
    }
    let told = |world: &World| world.cluster.watch_since(&maps(), &Selection::default(), before);
    world.advance(at(9 * 60));
    assert_eq!(told(&world).expect("changes of the last 9 min are kept").len(), 2_000);
    world.advance(at(11 * 60));
    assert_eq!(told(&world).expect_err("the changes were dropped").code, 410);
}

#[test]
fn a_machine_whose_storage_is_lost_cannot_be_registered_again() {
    let mut world =
        Topology::zones(1).machines(1).build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    let mut order =
        |seconds, command| world.apply(Time::after_start(Duration::from_secs(seconds)), command);
    order(1, Command::Inaccessible("node-0001".into())).unwrap();
    let refused = order(2, Command::Reregister("node-0001".into())).unwrap_err();
    assert!(refused.to_string().contains("not allowed in the current state"), "{refused}");
    order(3, Command::Connect("node-0001".into())).unwrap();
    order(4, Command::Reregister("node-0001".into())).unwrap();
}

#[test]
fn machines_with_reassigned_ids_keep_everything_else() {
    let mut world =
        Topology::zones(1).machines(3).build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    let names = ["node-0001", "node-0002", "node-0003"];
    let look = |world: &World| {
        let inventory = &world.vcenter("vc0").unwrap().inventory;
        names.map(|name| {
            let id = inventory.by_machine_name(name).next().unwrap();
            let mut entity = inventory.get(id).unwrap().clone();
            let Data::Machine(machine) = &mut entity.data else { panic!("{id}") };
            assert_eq!(inventory.by_bios_uuid(machine.config.uuid.unwrap()).next(), Some(id));
            (id, entity)
        })
    };
    let [(a, one), (b, two), (c, three)] = look(&world);
    let machines = names.map(Named::from).to_vec();
    let at = |seconds| Time::after_start(Duration::from_secs(seconds));
    world.apply(at(1), Command::ReassignIds { machines: machines.clone() }).unwrap();
    assert_eq!(look(&world), [(b, one), (c, two), (a, three)]);
    // Each kubelet stays on its machine.
    world.apply(at(2), Command::DeleteMachine(machines[0].clone())).unwrap();
    let running = |name: &str| world.state().kubelets.get(name).is_some_and(|it| it.running);
    assert_eq!(names.map(running), [false, true, true]);
}

#[test]
fn a_reassignment_of_ids_needs_two_idle_machines_of_one_vcenter() {
    let mut world = Topology::zones(1)
        .machines(2)
        .vcenters(2)
        .build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    let mut order =
        |seconds, command| world.apply(Time::after_start(Duration::from_secs(seconds)), command);
    let exchange = |names: &[&str]| Command::ReassignIds {
        machines: names.iter().map(|name| Named::from(*name)).collect(),
    };
    for wrong in
        [&["node-0001"][..], &[], &["node-0001", "node-0001"], &["node-0001", "vc1/node-1-0001"]]
    {
        let refused = order(1, exchange(wrong)).unwrap_err();
        assert!(refused.to_string().contains("machines"), "{wrong:?}: {refused}");
    }
    let both = ["node-0001", "node-0002"];
    order(2, Command::Reset("node-0002".into())).unwrap();
    let refused = order(3, exchange(&both)).unwrap_err();
    assert!(refused.to_string().contains("not allowed in the current state"), "{refused}");
    order(60, exchange(&both)).unwrap();
}

fn password() -> crate::vcenter::Password {
    let world = Topology::standard().build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    world.vcenter("vc0").unwrap().logins.users[ADMINISTRATOR].password.clone()
}
