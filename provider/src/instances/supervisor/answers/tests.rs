use std::{sync::Arc, time::Duration};

use super::*;
use crate::instances::supervisor::{
    view::freshness::{Mode, ViewEvent},
    view::listing::Listing,
};

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn node(name: &str, provider_id: Option<&str>) -> NodeIdentity {
    NodeIdentity {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        provider_id: provider_id.map(str::to_owned),
        system_uuid: None,
        reference: None,
        confirmed_gone: false,
    }
}

fn machine(name: &str, uuid: &str) -> MachineObject {
    MachineObject {
        name: name.into(),
        uid: format!("vm-{name}"),
        resource_version: "1".to_owned(),
        bios_uuid: Some(uuid.to_owned()).filter(|it| !it.is_empty()),
        power: PowerState::On,
        primary4: Some("10.0.0.1".to_owned()),
        zone: Some("zone-a".to_owned()),
        ..MachineObject::default()
    }
}

/// A view of the machines `n` with the UUID `AA` and `e` without a UUID, listed at the start, with
/// the last read and the time of the question.
struct Stage {
    view: View,
    freshness: Freshness,
    start: Instant,
    read: Option<ReadByName>,
    now: Instant,
}

impl Stage {
    fn new(mode: Mode) -> Self {
        let start = Instant::now();
        let machines = vec![machine("n", "AA"), machine("e", "")];
        let mut view = View::default();
        view.replace(&Listing::new(start, "1".to_owned(), machines, 0), start).unwrap();
        let mut freshness = Freshness::new(mode);
        freshness.fold(ViewEvent::Listed, start);
        Self { view, freshness, start, read: None, now: start }
    }

    fn fold(mut self, happened: ViewEvent) -> Self {
        self.freshness.fold(happened, self.now);
        self
    }

    fn later(mut self, n: u64) -> Self {
        self.now = self.start + seconds(n);
        self
    }

    fn read(mut self, machine: &str, read: ReadResult) -> Self {
        let machine = machine.into();
        self.read = Some(ReadByName { machine, began_at: self.now, ended_at: self.now, read });
        self
    }

    fn question<'a>(&'a self, node: &'a NodeIdentity) -> Question<'a> {
        Question {
            view: &self.view,
            freshness: &self.freshness,
            sync_deadline: self.start + seconds(60),
            node,
            machine: node.name.as_str(),
            read: self.read.as_ref(),
            now: self.now,
        }
    }

    fn exists(&self, node: &NodeIdentity) -> Answer<()> {
        exists(self.question(node))
    }

    fn metadata(&self, node: &NodeIdentity, wanted: ZoneWanted) -> Answer<(Metadata, Match)> {
        metadata(self.question(node), wanted, AddressPolicy::default())
    }
}

fn failed() -> ViewEvent {
    ViewEvent::Failed("503".to_owned())
}

fn unavailable() -> Unknown {
    Unknown::Unavailable("503".to_owned())
}

#[tokio::test(start_paused = true)]
async fn the_existence_answer_depends_on_the_view_and_the_last_read() {
    use Answer::{Found, NeedsGet, NeedsList, NeedsProof, NeedsSync};
    let fresh = || Stage::new(Mode::Watch);
    let silent = || Stage::new(Mode::Watch).later(181);
    let poll = || Stage::new(Mode::Poll);
    let n = node("n", Some("vsphere://aa"));
    let gone = node("gone", Some("vsphere://bb"));
    let named = node("e", None);
    let foreign = node("n", Some("aws:///aa"));
    for (name, stage, node, want) in [
        ("fresh, there", fresh(), &n, Found(())),
        ("fresh, there by name", fresh(), &named, Found(())),
        ("fresh, not there", fresh(), &gone, NeedsProof),
        ("stale, there", silent(), &n, NeedsGet("n".into())),
        ("stale, not there", silent(), &gone, NeedsGet("gone".into())),
        (
            "stale, read and not there",
            silent().read("gone", ReadResult::NotFound),
            &gone,
            NeedsProof,
        ),
        ("stale, another one read", silent().read("gone", ReadResult::Seen), &gone, NeedsProof),
        (
            "stale, not readable",
            silent().read("gone", ReadResult::Failed(unavailable())),
            &gone,
            Answer::Unknown(unavailable()),
        ),
        (
            "stale, read long ago",
            silent().read("gone", ReadResult::NotFound).later(187),
            &gone,
            NeedsGet("gone".into()),
        ),
        ("broken", fresh().later(9).fold(failed()), &n, Answer::Unknown(unavailable())),
        ("just seen, and broken", fresh().later(5).fold(failed()), &n, Found(())),
        ("polled just now, there", poll().later(5), &n, Found(())),
        ("polled just now, not there", poll().later(5), &gone, NeedsProof),
        ("polled a while ago, there", poll().later(6), &n, NeedsList),
        ("polled a while ago, not there", poll().later(6), &gone, NeedsList),
        ("get mode", fresh().later(6).fold(ViewEvent::ListForbidden), &n, NeedsGet("n".into())),
        (
            "get mode, not there",
            fresh().later(6).fold(ViewEvent::ListForbidden).read("gone", ReadResult::NotFound),
            &gone,
            NeedsProof,
        ),
    ] {
        assert_eq!(stage.exists(node), want, "{name}");
    }
    let why = Unknown::NotOurs("the provider ID \"aws:///aa\" is not one of vSphere".to_owned());
    for stage in [fresh(), silent(), poll()] {
        assert_eq!(stage.exists(&foreign), Answer::Unknown(why.clone()));
    }
    let mut syncing = Stage::new(Mode::Watch);
    syncing.view = View::default();
    syncing.freshness = Freshness::new(Mode::Watch);
    assert_eq!(syncing.exists(&n), NeedsSync);
    let syncing = syncing.fold(failed());
    assert_eq!(syncing.exists(&n), NeedsSync);
    let late = syncing.later(60);
    assert_eq!(late.exists(&n), Answer::Unknown(unavailable()));
    let late = late.fold(ViewEvent::WatchOpened);
    assert_eq!(late.exists(&n), NeedsGet("n".into()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_another_name_than_its_node_is_read_by_its_own_name() {
    let stage = Stage::new(Mode::Watch).later(181);
    let renamed = node("other", Some("vsphere://AA"));
    assert_eq!(stage.exists(&renamed), Answer::NeedsGet("n".into()));
    assert_eq!(Stage::new(Mode::Watch).exists(&renamed), Answer::Found(()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_last_seen_under_another_name_is_read_under_that_name() {
    let moved = node("other", Some("vsphere://bb"));
    let stage = Stage::new(Mode::Watch).later(6).fold(ViewEvent::ListForbidden);
    let answer = |stage: &Stage| exists(Question { machine: "m", ..stage.question(&moved) });
    assert_eq!(answer(&stage), Answer::NeedsGet("m".into()));
    let stage = stage.read("other", ReadResult::NotFound);
    assert_eq!(answer(&stage), Answer::NeedsGet("m".into()), "a read of another machine");
    let stage = stage.read("m", ReadResult::NotFound);
    assert_eq!(answer(&stage), Answer::NeedsProof);
}

#[tokio::test(start_paused = true)]
async fn a_machine_counts_as_shut_down_only_when_powered_off() {
    for (power, want) in [
        (PowerState::Off, true),
        (PowerState::On, false),
        (PowerState::Suspended, false),
        (PowerState::Unknown, false),
    ] {
        for deleting in [false, true] {
            let mut stage = Stage::new(Mode::Watch);
            let changed = MachineObject { power, deleting, ..machine("n", "AA") };
            stage.view.apply(changed, stage.now);
            let node = node("n", Some("vsphere://aa"));
            assert_eq!(shutdown(stage.question(&node)), Answer::Found(want), "{power:?}");
        }
    }
    let stage = Stage::new(Mode::Watch);
    let gone = node("gone", None);
    assert_eq!(shutdown(stage.question(&gone)), Answer::Unknown(Unknown::NotSeen));
    let mut stage = Stage::new(Mode::Watch);
    let mut odd = MachineObject { power: PowerState::Off, ..machine("n", "AA") };
    odd.unreadable.insert(Field::Power);
    stage.view.apply(odd, stage.now);
    let node = node("n", None);
    assert!(matches!(shutdown(stage.question(&node)), Answer::Unknown(Unknown::Incomplete(_))));
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_the_same_metadata_as_in_v1_mode() {
    let stage = Stage::new(Mode::Watch);
    for (name, node, want_id, want_match) in [
        ("without an ID", node("n", None), "vsphere://AA", Match::Strict),
        ("with its own", node("n", Some("vsphere://aa")), "vsphere://AA", Match::Strict),
        ("an empty one", node("n", Some("vsphere://")), "vsphere://AA", Match::Strict),
        ("under another name", node("x", Some("vsphere://aa")), "vsphere://AA", Match::Strict),
        ("of another UUID", node("n", Some("vsphere://bb")), "vsphere://bb", Match::ByNameOnly),
        ("without a UUID", node("e", Some("vsphere://cc")), "vsphere://cc", Match::ByNameOnly),
    ] {
        let Answer::Found((metadata, how)) = stage.metadata(&node, ZoneWanted::Yes) else {
            panic!("{name}");
        };
        assert_eq!((metadata.provider_id.as_str(), how), (want_id, want_match), "{name}");
        assert_eq!(metadata.addresses.unwrap().len(), 2, "{name}");
        let zone = Zone { zone: "zone-a".to_owned(), region: None };
        assert_eq!(metadata.zone, Ok(Some(zone)), "{name}");
        assert_eq!((metadata.instance_type, metadata.reference), (None, None), "{name}");
        // A match by name alone counts for metadata, not for existence.
        let want = if how == Match::Strict { Answer::Found(()) } else { Answer::NeedsProof };
        assert_eq!(stage.exists(&node), want, "{name}");
    }
    let answer = stage.metadata(&node("e", None), ZoneWanted::Yes);
    assert!(matches!(answer, Answer::Unknown(Unknown::Incomplete(_))), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_machine_is_read_once_and_then_not_seen() {
    let gone = node("gone", None);
    let not_seen = Answer::Unknown(Unknown::NotSeen);
    let read = Answer::NeedsGet("gone".into());
    for (name, stage, wanted, want) in [
        ("fresh", Stage::new(Mode::Watch), ZoneWanted::Yes, &read),
        ("stale", Stage::new(Mode::Watch).later(181), ZoneWanted::No, &read),
        (
            "read",
            Stage::new(Mode::Watch).read("gone", ReadResult::NotFound),
            ZoneWanted::Yes,
            &not_seen,
        ),
        (
            "stale and read",
            Stage::new(Mode::Watch).later(181).read("gone", ReadResult::NotFound),
            ZoneWanted::Yes,
            &not_seen,
        ),
        ("polled", Stage::new(Mode::Poll), ZoneWanted::Yes, &not_seen),
        (
            "polled a while ago",
            Stage::new(Mode::Poll).later(9),
            ZoneWanted::Yes,
            &Answer::NeedsList,
        ),
        ("addresses", Stage::new(Mode::Poll).later(9), ZoneWanted::No, &not_seen),
        ("addresses", Stage::new(Mode::Poll).later(601), ZoneWanted::No, &Answer::NeedsList),
    ] {
        assert_eq!(stage.metadata(&gone, wanted), want.clone(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_field_makes_that_part_of_the_metadata_unknown() {
    for (field, addresses, zone) in
        [(Field::Network, false, true), (Field::Labels, true, false), (Field::Power, true, true)]
    {
        let mut odd = machine("n", "AA");
        odd.unreadable.insert(field);
        let metadata =
            describe(&node("n", None), &odd, Match::Strict, AddressPolicy::default()).unwrap();
        assert_eq!(metadata.addresses.is_ok(), addresses, "{field:?}");
        assert_eq!(metadata.zone.is_ok(), zone, "{field:?}");
    }
    let zoneless = MachineObject { zone: None, ..machine("n", "AA") };
    let metadata =
        describe(&node("n", None), &zoneless, Match::Strict, AddressPolicy::default()).unwrap();
    assert_eq!(metadata.zone, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_read_refreshes_a_stale_entry() {
    let mut stage = Stage::new(Mode::Watch).later(200);
    let n = node("n", Some("vsphere://aa"));
    assert_eq!(stage.exists(&n), Answer::NeedsGet("n".into()));
    stage.view.apply_read(&Arc::new(machine("n", "AA")), stage.now);
    let stage = stage.read("n", ReadResult::Seen);
    assert_eq!(stage.exists(&n), Answer::Found(()));
    assert_eq!(shutdown(stage.question(&n)), Answer::Found(false));
}

#[tokio::test(start_paused = true)]
async fn a_machine_in_doubt_is_read_once_a_minute() {
    let mut stage = Stage::new(Mode::Watch);
    let shown = Arc::new(MachineObject { resource_version: "0".to_owned(), ..machine("d", "DD") });
    stage.view.apply_read(&shown, stage.start);
    let d = node("d", Some("vsphere://dd"));
    assert_eq!(stage.exists(&d), Answer::Found(()), "just read");
    let stage = stage.later(61);
    assert_eq!(stage.exists(&d), Answer::NeedsGet("d".into()));
    assert_eq!(stage.exists(&node("n", Some("vsphere://aa"))), Answer::Found(()), "in the list");
    let stage = stage.read("d", ReadResult::Failed(unavailable()));
    assert_eq!(stage.exists(&d), Answer::Unknown(unavailable()));
    let stage = stage.read("d", ReadResult::Seen);
    assert_eq!(stage.exists(&d), Answer::Found(()));
    let mut stage = stage.read("d", ReadResult::NotFound);
    stage.view.not_found(&"d".into(), stage.now);
    assert_eq!(stage.exists(&d), Answer::NeedsProof);
}
