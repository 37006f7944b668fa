//! Compares a status with the one that a reconciler must publish.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Outcome;
use super::trial::ensure;
use crate::lab::autoscaler::Quantity;
use crate::lab::capacity::Expected;

/// Architectures that the contract knows.
pub(crate) const ARCHITECTURES: [&str; 4] = ["amd64", "arm64", "s390x", "ppc64le"];
/// Operating systems that the contract knows.
pub(crate) const SYSTEMS: [&str; 2] = ["linux", "windows"];

/// Returns how `capacity` and `nodeInfo` of a status differ from the expected ones; `None` if they do
/// not. Amounts are compared as numbers.
pub(crate) fn difference(status: &Value, expected: &Expected) -> Option<String> {
    let differs = amounts_differ(&status["capacity"], &expected.capacity)
        || texts_differ(&status["nodeInfo"], &expected.node_info);
    let shown = |name: &str| status.get(name).unwrap_or(&Value::Null);
    differs.then(|| {
        format!(
            "status has capacity {} and nodeInfo {}, not capacity {:?} and nodeInfo {:?}",
            shown("capacity"),
            shown("nodeInfo"),
            expected.capacity,
            expected.node_info
        )
    })
}

/// True if an object of amounts is not the expected one. No amount is expected as no object.
fn amounts_differ(found: &Value, expected: &BTreeMap<String, String>) -> bool {
    let is_same = |name: &String, text: &String| {
        found[name.as_str()].as_str().is_some_and(|it| is_same_amount(it, text))
    };
    has_other_keys(found, expected) || !expected.iter().all(|(name, text)| is_same(name, text))
}

fn texts_differ(found: &Value, expected: &BTreeMap<String, String>) -> bool {
    has_other_keys(found, expected)
        || expected.iter().any(|(name, text)| found[name.as_str()] != text.as_str())
}

fn has_other_keys(found: &Value, expected: &BTreeMap<String, String>) -> bool {
    match found {
        Value::Null => !expected.is_empty(),
        // An empty object is not the same as none.
        Value::Object(found) => {
            expected.is_empty()
                || found.keys().collect::<BTreeSet<_>>() != expected.keys().collect()
        }
        _ => true,
    }
}

/// True if two texts are the same amount.
pub(super) fn is_same_amount(one: &str, other: &str) -> bool {
    match (amount(one), amount(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= one.abs() * 1e-9,
        _ => false,
    }
}

/// Returns the amount that a quantity stands for; `None` if the text is not a quantity.
pub(crate) fn amount(text: &str) -> Option<f64> {
    Quantity { text: text.to_owned() }.amount()
}

/// Verifies that a status keeps the contract of Cluster API.
pub(super) fn keeps_contract(status: &Value) -> Outcome {
    for (name, value) in status["capacity"].as_object().into_iter().flatten() {
        let known = value.as_str().and_then(amount).is_some_and(|it| it >= 0.0);
        ensure!(known, "capacity has {name}: {value}, which is no text of an amount");
    }
    for name in ["cpu", "memory"] {
        ensure!(status["capacity"].get(name).is_some(), "capacity has no {name}");
    }
    let Some(info) = status.get("nodeInfo") else { return Ok(()) };
    let fields = info.as_object().filter(|it| !it.is_empty());
    ensure!(fields.is_some(), "nodeInfo is {info}, which has no field");
    for (name, value) in fields.into_iter().flatten() {
        let known: &[&str] = match name.as_str() {
            "architecture" => &ARCHITECTURES,
            "operatingSystem" => &SYSTEMS,
            _ => &[],
        };
        let is_known = value.as_str().is_some_and(|it| known.contains(&it));
        ensure!(is_known, "nodeInfo has {name}: {value}, expected one of {}", known.join(", "));
    }
    Ok(())
}
