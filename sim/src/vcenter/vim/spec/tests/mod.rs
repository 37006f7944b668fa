//! Proof that a vCenter carries out, refuses or is documented to ignore each field that the
//! operations on machines accept. The tests walk the types of these operations by the schema.

mod carried;
mod lab;
mod samples;
mod walk;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::fields::{FIELDS, MODELED, Treatment};
use super::values::{BACKINGS, CARDS, VALUES};
use crate::call::vim25::{self, Version};
use lab::Lab;
use walk::{METHODS, Place, places, walk};

/// The package, if its repository is around it; `None` for an unpacked package, which has neither
/// documents nor the other tests.
fn package() -> Option<&'static Path> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    (!package.join("Cargo.toml.orig").exists()).then_some(package)
}

#[test]
fn every_field_that_an_operation_on_a_machine_accepts_has_a_treatment() {
    let places = places();
    let without: Vec<String> =
        places.iter().filter(|it| it.treatment.is_none()).map(Place::to_string).collect();
    assert!(without.is_empty(), "without a treatment in fields.rs: {without:#?}");
    assert!(places.len() > 280, "{} fields", places.len());
}

#[test]
fn every_row_of_the_table_is_a_field_of_the_schema_that_a_request_reaches() {
    let places = places();
    let reached: BTreeSet<(&str, &str)> =
        places.iter().map(|it| (it.owner, it.field.name)).collect();
    let rows: BTreeSet<(&str, &str)> = FIELDS.iter().map(|(of, name, _)| (*of, *name)).collect();
    assert_eq!(rows.len(), FIELDS.len(), "a field has two rows");
    let stale: Vec<_> = rows.difference(&reached).collect();
    assert!(stale.is_empty(), "no request reaches {stale:?}");
    let kinds: BTreeSet<&str> = places.iter().map(|it| it.owner).chain(METHODS).collect();
    let unknown: Vec<_> = MODELED.iter().filter(|it| !kinds.contains(*it)).collect();
    assert!(unknown.is_empty(), "no request reaches {unknown:?}");
    for (owner, name, kind) in VALUES {
        assert!(reached.contains(&(*owner, *name)), "no request reaches {owner}.{name}");
        assert!(vim25::find(kind).is_some_and(|it| it.values().count() > 1), "{kind}");
    }
    for kind in BACKINGS.iter().chain(CARDS) {
        assert!(vim25::find(kind).is_some(), "{kind}");
    }
}

#[test]
fn a_kept_field_is_shown_by_a_property_of_the_same_type() {
    for place in places() {
        let Some(Treatment::Kept(path)) = place.treatment else { continue };
        if place.is_inside() {
            continue;
        }
        let shown = vim25::property("VirtualMachine", path, Version::LATEST);
        let shown = shown.unwrap_or_else(|| panic!("{path} does not exist"));
        let declared = place.field.declared;
        assert_eq!((shown.name, shown.is_list), (declared.name, declared.is_list), "{path}");
    }
}

#[test]
fn the_documentation_lists_exactly_the_ignored_fields() {
    let Some(package) = package() else { return };
    let page = fs::read_to_string(package.join("../docs/ignored-fields.md")).unwrap();
    let rows: BTreeSet<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let ignored = FIELDS.iter().filter_map(|(owner, name, treatment)| match treatment {
        Treatment::Ignored(reason) => Some(format!("| `{owner}` | `{name}` | {reason} |")),
        _ => None,
    });
    let ignored: BTreeSet<String> = ignored.collect();
    let ignored: BTreeSet<&str> = ignored.iter().map(String::as_str).collect();
    assert_eq!(rows, ignored, "docs/ignored-fields.md and spec/fields.rs differ");
}

#[tokio::test(start_paused = true)]
async fn every_refused_field_is_refused_by_name() {
    let mut lab = Lab::new().await;
    let mut n_refused = 0;
    for place in places() {
        if place.treatment != Some(Treatment::Refused) {
            continue;
        }
        n_refused += 1;
        let answer = lab.send(&place).await;
        assert!(answer.contains("xsi:type=\"NotSupported\""), "{place}: {answer}");
        let name = format!("{}.{} is not", place.owner, place.field.name);
        assert!(answer.contains(&name), "{place}: {answer}");
    }
    assert!(n_refused > 50, "{n_refused} fields");
}

#[tokio::test(start_paused = true)]
async fn a_refused_flag_may_be_false() {
    let mut lab = Lab::new().await;
    lab.reconfigure("<sevEnabled>false</sevEnabled><vAppConfigRemoved>0</vAppConfigRemoved>").await;
}

#[tokio::test(start_paused = true)]
async fn every_ignored_field_is_accepted() {
    let mut lab = Lab::new().await;
    let mut n_ignored = 0;
    for place in places() {
        if matches!(place.treatment, Some(Treatment::Ignored(_))) {
            n_ignored += 1;
            let answer = lab.send(&place).await;
            assert!(answer.contains("type=\"Task\""), "{place}: {answer}");
        }
    }
    assert!(n_ignored > 10, "{n_ignored} fields");
}

#[tokio::test(start_paused = true)]
async fn a_device_or_backing_that_a_machine_cannot_have_is_refused() {
    let mut lab = Lab::new().await;
    let (devices, backings) = walk().unsupported;
    assert!(devices.len() > 15 && backings.len() > 30, "{devices:?} {backings:?}");
    for kind in devices {
        let answer = lab.add_device(kind, "").await;
        assert!(answer.contains("DeviceUnsupportedForVmPlatform"), "{kind}: {answer}");
    }
    for kind in backings {
        let backing = samples::around("backing", kind, "", "");
        let answer = lab.add_device("VirtualCdrom", &backing).await;
        assert!(answer.contains("InvalidDeviceBacking"), "{kind}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_kept_field_is_shown_afterwards() {
    let mut lab = Lab::new().await;
    let mut n_kept = 0;
    for place in places() {
        let Some(Treatment::Kept(path)) = place.treatment else { continue };
        if place.is_inside() {
            continue;
        }
        let mut kept = Vec::new();
        let value = samples::field(place.owner, &place.field, &mut kept);
        n_kept += kept.len();
        lab.reconfigure(&value).await;
        let shown = lab.fetch(path).await;
        samples::assert_shown(&value, &shown, path);
    }
    assert!(n_kept > 90, "{n_kept} fields");
}

#[tokio::test(start_paused = true)]
async fn every_kept_field_of_a_device_is_shown_afterwards() {
    let mut lab = Lab::new().await;
    for (kind, backing) in walk::devices() {
        let mut device = samples::object("device", kind, &mut Vec::new());
        if !matches!(kind, "VirtualDisk" | "VirtualCdrom") {
            device = device.replace("<controllerKey>200<", "<controllerKey>100<");
        }
        if let Some(backing) = backing {
            let backing = samples::object("backing", backing, &mut Vec::new());
            device = device.replacen("<controllerKey>", &format!("{backing}<controllerKey>"), 1);
        }
        let change = format!("<deviceChange><operation>add</operation>{device}</deviceChange>");
        lab.reconfigure(&change).await;
        let shown = lab.fetch("config.hardware.device").await;
        samples::assert_device(&device, &shown, kind);
        lab.remove_device(&shown, kind).await;
    }
}
