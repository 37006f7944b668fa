use std::{collections::BTreeSet, time::Duration};

use super::*;
use crate::instances::supervisor::machine::{Field, MachineObject};

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn node(name: &str, provider_id: Option<&str>) -> NodeIdentity {
    NodeIdentity {
        name: name.into(),
        uid: "u".into(),
        provider_id: provider_id.map(str::to_owned),
        system_uuid: None,
        reference: None,
        confirmed_gone: false,
    }
}

/// Returns machines from texts `name/status UUID/spec UUID`.
fn machines(texts: &[&str]) -> Vec<MachineObject> {
    let machine = |text: &&str| {
        let mut parts = text.split('/').map(str::to_owned);
        let mut next = || parts.next().filter(|it| !it.is_empty());
        MachineObject {
            name: next().unwrap_or_default().as_str().into(),
            bios_uuid: next(),
            wanted_uuid: next(),
            ..MachineObject::default()
        }
    };
    texts.iter().map(machine).collect()
}

/// A read of the machine `n` that began and ended at this time.
fn reading(at: Instant, read: ReadResult) -> ReadByName {
    ReadByName { machine: "n".into(), began_at: at, ended_at: at, read }
}

/// A claim made 100 s after `start`, whose evidence may be up to 5 s old.
fn claim(node: &NodeIdentity, start: Instant) -> Claim<'_> {
    let now = start + seconds(100);
    let after = now - seconds(5);
    Claim {
        node,
        machine: node.name.as_str(),
        after,
        changed_at: None,
        matched: true,
        any_matched: true,
        now,
        active: Active::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_list_without_the_machine_proves_that_it_is_gone() {
    let start = Instant::now();
    let at = start + seconds(98);
    let (uuid, name) = (node("n", Some("vsphere://AA")), node("n", None));
    let empty_id = node("n", Some("vsphere://"));
    let gone = Verdict::Gone { proved_at: at };
    for (what, node, shown, want) in [
        ("nothing there", &uuid, &[][..], &gone),
        ("others there", &uuid, &["x/bb", "y/cc/dd"], &gone),
        ("there", &uuid, &["n/aa"], &Verdict::Present),
        ("there in another spelling", &uuid, &["n/ AA "], &Verdict::Present),
        ("there under another name", &uuid, &["x/aa"], &Verdict::Present),
        ("twice there", &uuid, &["x/aa", "y/aa"], &Verdict::Present),
        ("another machine whose spec has its UUID", &uuid, &["x//aa"], &Verdict::Present),
        ("another machine under its name", &uuid, &["n/bb"], &gone),
        ("another machine under its name, with a UUID only in its spec", &uuid, &["n//bb"], &gone),
        ("by name: there", &name, &["n/bb"], &Verdict::Present),
        ("by name: there without UUID", &name, &["n/"], &Verdict::Present),
        ("by name: gone", &name, &["x/bb"], &gone),
        ("an empty ID counts as none", &empty_id, &["n/bb"], &Verdict::Present),
        ("an empty ID counts as none", &empty_id, &["x/bb"], &gone),
    ] {
        let listing = Listing::new(at, "1".to_owned(), machines(shown), 0);
        assert_eq!(&by_list(&claim(node, start), Some(&listing)), want, "{what}");
    }
    for (what, node, shown, n_unreadable) in [
        ("its namesake has no UUID yet", &uuid, &["n/"][..], 0),
        ("an object without a name", &uuid, &["x/bb"], 1),
        ("by name: an object without a name", &name, &["x/bb"], 1),
    ] {
        let listing = Listing::new(at, "1".to_owned(), machines(shown), n_unreadable);
        let verdict = by_list(&claim(node, start), Some(&listing));
        assert!(matches!(verdict, Verdict::Unknown(Unknown::Incomplete(_))), "{what}: {verdict:?}");
    }
    let renamed = Claim { machine: "x", ..claim(&uuid, start) };
    let listing = Listing::new(at, "1".to_owned(), machines(&["x/"]), 0);
    let verdict = by_list(&renamed, Some(&listing));
    assert!(
        matches!(verdict, Verdict::Unknown(Unknown::Incomplete(_))),
        "the machine under its last name has no UUID: {verdict:?}"
    );
    let mut odd = machines(&["x/"]);
    odd[0].unreadable = BTreeSet::from([Field::Uuid]);
    let listing = Listing::new(at, "1".to_owned(), odd, 0);
    let verdict = by_list(&claim(&uuid, start), Some(&listing));
    assert!(matches!(verdict, Verdict::Unknown(Unknown::Incomplete(_))), "a UUID that is a number");
}

#[tokio::test(start_paused = true)]
async fn no_list_proves_a_machine_gone_whose_provider_id_is_a_path_or_a_name() {
    let start = Instant::now();
    let listing = Listing::new(start + seconds(98), "1".to_owned(), machines(&["x/bb"]), 0);
    for id in ["vsphere:///DC0/vm/n", "vsphere://folder/n", "vsphere://N", "vsphere://x"] {
        let verdict = by_list(&claim(&node("n", Some(id)), start), Some(&listing));
        assert!(matches!(verdict, Verdict::Unknown(Unknown::NotOurs(_))), "{id}: {verdict:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn old_evidence_proves_nothing() {
    let start = Instant::now();
    let node = node("n", Some("vsphere://aa"));
    let usual = claim(&node, start);
    let (now, after) = (usual.now, usual.after);
    let needs = |after| Verdict::NeedsList { after };
    let gone = |proved_at| Verdict::Gone { proved_at };
    let lenient = Claim { after: start, ..usual };
    let limit = now - EVIDENCE_AGE;
    let changed = |at| Claim { changed_at: Some(at), ..usual };
    let moment = Duration::from_millis(1);
    for (what, claim, began_at, want) in [
        ("no list", usual, None, needs(after)),
        ("a list from before `after`", usual, Some(after - moment), needs(after)),
        ("a list from `after`", usual, Some(after), gone(after)),
        ("a list older than a minute", lenient, Some(limit - moment), needs(limit)),
        ("a list from a minute ago", lenient, Some(limit), gone(limit)),
        ("before the last change", changed(now - moment), Some(after), needs(now - moment)),
        ("after the last change", changed(after), Some(now), gone(now)),
        ("at the last change", changed(now), Some(now), gone(now)),
    ] {
        let listing = began_at.map(|at| Listing::new(at, "1".to_owned(), Vec::new(), 0));
        assert_eq!(by_list(&claim, listing.as_ref()), want, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_node_or_a_view_without_matches_is_never_proved_gone() {
    let start = Instant::now();
    let listing = Listing::new(start + seconds(99), "1".to_owned(), Vec::new(), 0);
    let read = reading(start + seconds(99), ReadResult::NotFound);
    for foreign in ["aws:///i-1", "aa", "k3s://n"] {
        let node = node("n", Some(foreign));
        let claim = claim(&node, start);
        let is_foreign = |verdict| matches!(verdict, Verdict::Unknown(Unknown::NotOurs(_)));
        assert!(is_foreign(by_list(&claim, Some(&listing))), "{foreign}");
        assert!(is_foreign(by_list(&claim, None)), "{foreign}: without a list");
        assert!(is_foreign(by_read(&claim, Some(&read))), "{foreign}");
    }
    let node = node("n", None);
    let claim = Claim { any_matched: false, ..claim(&node, start) };
    for verdict in [by_list(&claim, Some(&listing)), by_list(&claim, None), by_read(&claim, None)] {
        assert!(matches!(verdict, Verdict::Unknown(Unknown::Unavailable(_))), "{verdict:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_proves_absence_only_of_a_machine_known_under_that_name() {
    let start = Instant::now();
    let at = start + seconds(99);
    let (uuid, name) = (node("n", Some("vsphere://aa")), node("n", None));
    let failed = Unknown::Unavailable("503".to_owned());
    for (what, node, matched, read, want) in [
        (
            "by name, not found",
            &name,
            false,
            ReadResult::NotFound,
            Some(Verdict::Gone { proved_at: at }),
        ),
        ("by name, found", &name, false, ReadResult::Seen, Some(Verdict::Present)),
        (
            "matched, not found",
            &uuid,
            true,
            ReadResult::NotFound,
            Some(Verdict::Gone { proved_at: at }),
        ),
        ("never matched, not found", &uuid, false, ReadResult::NotFound, None),
        ("matched, another machine found", &uuid, true, ReadResult::Seen, None),
        (
            "the read failed",
            &uuid,
            true,
            ReadResult::Failed(failed.clone()),
            Some(Verdict::Unknown(failed.clone())),
        ),
    ] {
        let claim = Claim { matched, ..claim(node, start) };
        let verdict = by_read(&claim, Some(&reading(at, read)));
        match want {
            Some(want) => assert_eq!(verdict, want, "{what}"),
            None => assert!(matches!(verdict, Verdict::Unknown(Unknown::Incomplete(_))), "{what}"),
        }
    }
    let claim = claim(&uuid, start);
    let old = reading(claim.after - Duration::from_millis(1), ReadResult::NotFound);
    assert_eq!(by_read(&claim, Some(&old)), Verdict::NeedsGet { after: claim.after });
    assert_eq!(by_read(&claim, None), Verdict::NeedsGet { after: claim.after });
    let other = reading(at, ReadResult::NotFound);
    let renamed = Claim { machine: "m", ..claim };
    let verdict = by_read(&renamed, Some(&other));
    assert_eq!(verdict, Verdict::NeedsGet { after: claim.after }, "a read of another name");
}
