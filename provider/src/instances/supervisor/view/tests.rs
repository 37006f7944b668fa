use super::*;
use crate::instances::supervisor::machine::Field;

/// Builds a machine from a text `name/uuid@version`. The name is also the `metadata.uid`.
fn machine(text: &str) -> MachineObject {
    let (name, rest) = text.split_once('/').unwrap();
    let (uuid, version) = rest.split_once('@').unwrap();
    MachineObject {
        name: name.into(),
        uid: name.to_owned(),
        bios_uuid: Some(uuid.to_owned()).filter(|it| !it.is_empty()),
        resource_version: version.to_owned(),
        ..MachineObject::default()
    }
}

fn key(text: &str) -> UuidKey {
    UuidKey::of(text).unwrap()
}

fn listing(version: &str, machines: &[&str]) -> Listing {
    let machines = machines.iter().map(|text| machine(text)).collect();
    Listing::new(Instant::now(), version.to_owned(), machines, 0)
}

fn listed(view: &View) -> Vec<String> {
    let text = |entry: &Entry| {
        let MachineObject { name, bios_uuid, resource_version, .. } = &*entry.machine;
        format!("{name}/{}@{resource_version}", bios_uuid.as_deref().unwrap_or_default())
    };
    view.machines.values().map(text).collect()
}

fn view(version: &str, machines: &[&str]) -> View {
    let mut view = View::default();
    view.replace(&listing(version, machines), Instant::now()).unwrap();
    view
}

fn names(changes: &Changes) -> Vec<&str> {
    changes.names.iter().map(MachineName::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn machines_are_found_by_name_and_by_uuid_of_any_case() {
    let view = view("9", &["a/AA-1@1", "b/@2"]);
    assert_eq!(view.by_uuid(&key("aa-1"), &"x".into()).unwrap().machine.name.as_str(), "a");
    assert_eq!(view.by_uuid(&key("AA-1 "), &"x".into()).unwrap().machine.name.as_str(), "a");
    assert_eq!(UuidKey::of(" "), None);
    assert_eq!(view.by_name("b").unwrap().machine.bios_uuid, None);
    assert_eq!((view.len(), view.n_duplicates()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn among_machines_with_one_uuid_the_namesake_of_the_node_is_preferred() {
    let at = |text: &str| Some(text.parse().unwrap());
    let mut deleting = machine("a/u@1");
    deleting.deleting = true;
    deleting.created = at("2026-01-01T00:00:00Z");
    let mut older = machine("c/u@2");
    older.created = at("2026-01-02T00:00:00Z");
    let mut newer = machine("b/u@3");
    newer.created = at("2026-01-03T00:00:00Z");
    let unknown = machine("d/u@4");
    let listing =
        Listing::new(Instant::now(), "9".to_owned(), vec![deleting, older, newer, unknown], 0);
    let mut view = View::default();
    view.replace(&listing, Instant::now()).unwrap();
    assert_eq!(view.n_duplicates(), 1);
    for (node, want) in [("a", "a"), ("b", "b"), ("d", "d"), ("x", "c")] {
        assert_eq!(
            view.by_uuid(&key("u"), &node.into()).unwrap().machine.name.as_str(),
            want,
            "node {node}"
        );
    }
    view.remove(&machine("c/u@10"), Instant::now());
    assert_eq!(view.by_uuid(&key("u"), &"x".into()).unwrap().machine.name.as_str(), "b");
    view.remove(&machine("b/u@11"), Instant::now());
    assert_eq!(view.by_uuid(&key("u"), &"x".into()).unwrap().machine.name.as_str(), "d");
    view.remove(&machine("d/u@12"), Instant::now());
    assert_eq!(view.by_uuid(&key("u"), &"x".into()).unwrap().machine.name.as_str(), "a");
}

#[tokio::test(start_paused = true)]
async fn an_event_older_than_the_view_is_ignored() {
    let now = Instant::now();
    let mut view = view("5", &["a/u@5"]);
    for (name, event, want) in [
        ("an older one", "a/old@4", "a/u@5"),
        ("the same one", "a/u@5", "a/u@5"),
        ("a newer one", "a/v@6", "a/v@6"),
        ("not a number: what comes last", "a/w@x", "a/w@x"),
    ] {
        view.apply(machine(event), now);
        assert_eq!(listed(&view), [want], "{name}");
    }
    assert!(view.by_uuid(&key("u"), &"a".into()).is_none(), "the index follows");
    assert!(view.by_uuid(&key("w"), &"a".into()).is_some());
    // The machine was deleted, and another one of that name was created before the event of the
    // deletion arrived.
    let mut other = machine("a/w@9");
    other.uid = "other".to_owned();
    view.apply(other, now);
    view.remove(&machine("a/w@8"), now);
    assert_eq!(listed(&view), ["a/w@9"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_replaces_everything_that_is_not_newer() {
    let now = Instant::now();
    let mut view = view("5", &["a/u@3", "b/v@4"]);
    assert!(view.replace(&listing("4", &[]), now).is_none(), "a list older than the view");
    assert_eq!(view.len(), 2);
    let mut restored = view.clone();
    restored.start_over();
    restored.replace(&listing("4", &["a/u@2"]), now).unwrap();
    assert_eq!(listed(&restored), ["a/u@2"]);
    // Reads by name that are newer than the next list.
    view.apply_read(&Arc::new(machine("c/w@8")), now);
    view.apply_read(&Arc::new(machine("b/v2@9")), now);
    view.replace(&listing("7", &["b/v1@6"]), now).unwrap();
    assert_eq!(listed(&view), ["b/v2@9", "c/w@8"]);
    assert_eq!(view.version, "7");
    view.replace(&listing("9", &["b/v2@9"]), now).unwrap();
    assert_eq!(listed(&view), ["b/v2@9"]);
    // A server whose versions are not numbers.
    view.replace(&listing("zz", &["a/u@x"]), now).unwrap();
    assert_eq!(listed(&view), ["a/u@x"]);
    view.apply_read(&Arc::new(machine("a/u@y")), now);
    assert_eq!(listed(&view), ["a/u@x"], "the versions do not show which one is newer");
    view.apply_read(&Arc::new(machine("b/v@y")), now);
    assert_eq!(view.len(), 1, "the read began before the machine disappeared");
    view.apply_read(&Arc::new(machine("b/v@y")), now + Duration::from_secs(1));
    assert_eq!(view.len(), 2, "a machine that the view does not have is added");
}

#[tokio::test(start_paused = true)]
async fn changes_list_the_names_and_uuids_of_changed_machines() {
    let now = Instant::now();
    let mut view = View::default();
    let changes = view.replace(&listing("1", &["a/u@1", "b/@1"]), now).unwrap();
    assert_eq!(names(&changes), ["a", "b"]);
    assert_eq!(changes.uuids, BTreeSet::from([key("u")]));
    let changes = view.replace(&listing("2", &["a/u@1", "b/@2"]), now).unwrap();
    assert_eq!(changes, Changes::default(), "only a version");
    let changes = view.apply(machine("b/V@3"), now);
    assert_eq!(names(&changes), ["b"]);
    assert_eq!(changes.uuids, BTreeSet::from([key("v")]));
    let mut addressed = machine("a/u@4");
    addressed.primary4 = Some("10.0.0.1".to_owned());
    assert_eq!(names(&view.apply(addressed.clone(), now)), ["a"]);
    let mut off = MachineObject { resource_version: "5".to_owned(), ..addressed };
    off.power = super::super::machine::PowerState::Off;
    assert_eq!(view.apply(off.clone(), now), Changes::default(), "a power state is not announced");
    off.zone = Some("z".to_owned());
    off.resource_version = "6".to_owned();
    assert_eq!(names(&view.apply(off, now)), ["a"]);
    // A machine that gets another UUID concerns the nodes of both UUIDs.
    let changes = view.apply(machine("b/w@7"), now);
    assert_eq!(changes.uuids, BTreeSet::from([key("v"), key("w")]));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_field_keeps_its_earlier_value() {
    let now = Instant::now();
    let mut view = view("1", &["a/u@1"]);
    let mut odd = machine("a/@2");
    odd.unreadable.insert(Field::Uuid);
    view.apply(odd, now);
    let entry = view.by_uuid(&key("u"), &"a".into()).unwrap();
    assert_eq!(entry.machine.unreadable, BTreeSet::from([Field::Uuid]));
    assert_eq!(entry.machine.resource_version, "2");
}

#[tokio::test(start_paused = true)]
async fn the_view_remembers_when_a_machine_came_or_went() {
    let start = Instant::now();
    let mut view = view("1", &["a/u@1"]);
    assert_eq!(view.changed_at("a", Some(&key("u"))), Some(start));
    assert_eq!(view.changed_at("x", Some(&key("y"))), None);
    tokio::time::advance(Duration::from_secs(10)).await;
    let later = Instant::now();
    view.apply(machine("a/u@2"), later);
    assert_eq!(view.changed_at("a", Some(&key("u"))), Some(start), "still the same machine");
    view.remove(&machine("a/u@3"), later);
    assert_eq!(view.changed_at("x", Some(&key("u"))), Some(later));
    assert_eq!(view.changed_at("a", None), Some(later));
    // If a list shows that a machine is gone, the time of the change is the start of the list.
    view.apply(machine("b/v@4"), later);
    let listing = listing("5", &[]);
    tokio::time::advance(Duration::from_secs(10)).await;
    view.replace(&listing, Instant::now()).unwrap();
    assert_eq!(view.changed_at("b", Some(&key("v"))), Some(listing.began_at));
    tokio::time::advance(EVIDENCE_AGE).await;
    view.replace(&self::listing("6", &[]), Instant::now()).unwrap();
    assert!(view.touched.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_read_that_contradicts_the_view_is_repeated_and_then_believed() {
    let start = Instant::now();
    let mut view = view("9", &["a/u@2"]);
    view.remove(&machine("a/u@10"), start);
    let doubted = |view: &View, at| view.by_name("a").unwrap().must_be_read(at);
    let later = |n| start + EVIDENCE_AGE * n + Duration::from_secs(1);
    view.apply_read(&Arc::new(machine("a/u@2")), later(1));
    assert!(!doubted(&view, later(2) - Duration::from_secs(1)), "just read");
    assert!(doubted(&view, later(3)), "the view had it and lost it");
    view.apply_read(&Arc::new(machine("a/u@2")), later(3));
    assert!(!doubted(&view, later(3)), "shown again");
    assert!(doubted(&view, later(5)), "still only reads show it");
    view.not_found(&"a".into(), later(2));
    assert_eq!(view.len(), 1, "this read began before the one that showed it");
    view.not_found(&"a".into(), later(5));
    assert_eq!((view.len(), view.changed_at("a", Some(&key("u")))), (0, Some(later(5))));

    view.apply_read(&Arc::new(machine("b/v@2")), start);
    view.apply(machine("b/v@11"), start);
    assert!(!view.by_name("b").unwrap().in_doubt, "the watch shows it too");
    view.apply_read(&Arc::new(machine("c/w@12")), start);
    assert!(!view.by_name("c").unwrap().in_doubt, "it may have come after the list");
    view.not_found(&"c".into(), later(9));
    assert_eq!(listed(&view), ["b/v@11", "c/w@12"], "c is not in doubt");
}
