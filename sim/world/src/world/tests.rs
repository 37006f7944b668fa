//! What a world is after it was put away.

use std::time::Duration;

use crate::objects::{self, GroupResource, Key, Selection};
use crate::vcenter::Family;
use crate::{ADMINISTRATOR, Command, Outcome, Time, Topology, VcRequest, World};

#[test]
fn a_resumed_world_serves_no_call_of_the_process_before() {
    let mut world = Topology::standard().build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    let mut ask = |seconds: u64, request: VcRequest| {
        let at = Time::after_start(Duration::from_secs(seconds));
        let command = Command::Request { vcenter: "vc0".into(), request };
        world.apply(at, command).expect("vc0 does that").outcome
    };
    let login = VcRequest::Login {
        family: Family::Vapi,
        token: None,
        user: ADMINISTRATOR.to_owned(),
        password: password(),
        user_agent: String::new(),
    };
    let Outcome::Session(token) = ask(1, login) else { panic!("a login opens a session") };
    ask(2, VcRequest::CallBegan { token: token.clone() });
    let put_away = world.state().clone();
    let later = "2026-03-02T08:00:00Z".parse().unwrap();

    let mut world = World::restore(put_away.resumed_at(later));
    assert_eq!(Time::after_start(world.age()).timestamp(world.epoch()), later);
    let lives = |world: &World| world.vcenter("vc0").unwrap().logins.sessions.contains_key(&token);
    assert!(lives(&world), "sessions outlive a restart");
    world.advance(Time::after_start(Duration::from_secs(24 * 3600)));
    assert!(!lives(&world), "it is idle, and ends like any other");
}

#[test]
fn api_servers_forget_changes_as_the_world_grows_older() {
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
    assert_eq!(told(&world).expect("all of them are young").len(), 2_000);
    world.advance(at(11 * 60));
    assert_eq!(told(&world).expect_err("they are forgotten").code, 410);
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

fn password() -> crate::vcenter::Password {
    let world = Topology::standard().build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    world.vcenter("vc0").unwrap().logins.users[ADMINISTRATOR].password.clone()
}
