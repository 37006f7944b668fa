//! Tests of the journal.

use super::*;

const ID: Uuid = Uuid::from_u128(7);

fn journal() -> Journal {
    let mut journal = Journal::new(ID);
    journal.want("workers", None, |_| false);
    journal
}

#[test]
fn a_journal_that_is_written_and_read_is_the_same() {
    let mut journal = journal();
    let second = journal.want("workers", Some(Timestamp::UNIX_EPOCH), |_| false);
    journal.find_mut(second).unwrap().disks.insert(2000, Uuid::from_u128(3));
    journal.vcenter = Some("abc".to_owned());
    assert_eq!(Journal::parse(&journal.text()), Ok(journal));
}

#[test]
fn machines_have_names_and_uuids_that_never_repeat() {
    let mut journal = journal();
    let first = journal.machines()[0].clone();
    let taken = first.name.clone();
    journal.bury(first.instance, true, Timestamp::UNIX_EPOCH);
    for _ in 0..500 {
        journal.want("workers", None, |name| name == taken);
    }
    let names: BTreeSet<_> = journal.machines().iter().map(|it| &it.name).collect();
    let uuids: BTreeSet<_> =
        journal.machines().iter().flat_map(|it| [it.bios, it.instance]).collect();
    assert_eq!((names.len(), uuids.len()), (501, 1002));
    let mut other = Journal::new(Uuid::from_u128(8));
    let other = other.want("workers", None, |_| false);
    assert!(!uuids.contains(&other), "another journal chooses other UUIDs");
}

#[test]
fn a_text_that_is_no_journal_is_refused_with_a_remedy() {
    let good = journal().text();
    for (old, new, problem) in [
        ("\"version\":1", "\"version\":2", "has the version 2, and this server reads 1"),
        ("\"next\":1", "\"next\":-1", "is not a valid journal"),
        ("\"wanted\"", "\"wished\"", "is not a valid journal"),
        ("\"name\":", "\"nam\":", "is not a valid journal"),
        ("{", "", "is not a valid journal"),
    ] {
        assert!(good.contains(old), "{old}");
        let err = Journal::parse(&good.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(err.contains(problem) && err.contains("restore the journal"), "{err}");
    }
    assert!(Journal::parse("").is_err());
    let mut twice = journal();
    twice.machines.push(twice.machines[0].clone());
    assert!(Journal::parse(&twice.text()).unwrap_err().to_string().contains("two machines"));
}

#[test]
fn a_deleted_machine_stays_for_an_hour() {
    let (mut journal, at) = (journal(), |second| Timestamp::from_second(second).unwrap());
    let instance = journal.machines()[0].instance;
    journal.bury(instance, false, at(0));
    journal.forget(at(3600));
    assert!(journal.find(instance).is_some());
    journal.forget(at(3601));
    assert_eq!(journal.machines(), []);
}
