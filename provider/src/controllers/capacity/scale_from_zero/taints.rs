//! Taints of a new Node.

use serde_json::Value;

use super::{
    super::{keys::TAINTS, plan::text},
    Annotations,
};
use crate::controllers::node::valid_label;

/// A taint with which a new Node registers. The autoscaler does not check the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTaint {
    /// Key.
    pub key: String,
    /// Value; may be empty.
    pub value: String,
    /// Effect; may be empty.
    pub effect: String,
}

/// Returns the taints of the Machines. One of the annotation with the same key and effect replaces
/// one of them, and the others follow. An entry that cannot be read is left out with a note.
pub(super) fn taints(
    group: &Value,
    annotations: &Annotations<'_>,
    notes: &mut Vec<String>,
) -> Vec<ReadTaint> {
    let own = |value: &Value| text(value).to_owned();
    let of_machines = group["spec"]["template"]["spec"]["taints"].as_array().into_iter().flatten();
    let of_machines = of_machines.filter(|it| it.is_object()).map(|it| ReadTaint {
        key: own(&it["key"]),
        value: own(&it["value"]),
        effect: own(&it["effect"]),
    });
    let mut taints: Vec<ReadTaint> = of_machines.collect();
    for entry in annotations.of_capacity(TAINTS).into_iter().flat_map(|text| text.split(',')) {
        let Some(taint) = read(entry) else {
            notes.push(format!("taints: left out {entry:?}; write KEY=VALUE:EFFECT"));
            continue;
        };
        let is_same = |it: &&mut ReadTaint| it.key == taint.key && it.effect == taint.effect;
        match taints.iter_mut().find(is_same) {
            Some(known) => *known = taint,
            None => taints.push(taint),
        }
    }
    taints
}

/// Reads `KEY`, `KEY:EFFECT` or `KEY=VALUE:EFFECT`.
fn read(entry: &str) -> Option<ReadTaint> {
    let parts: Vec<&str> = entry.split(':').collect();
    let (key, value, effect) = match parts[..] {
        [key] => (key, "", ""),
        [pair, effect] => {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key, value, effect)
        }
        _ => return None,
    };
    let is_value = value.is_empty() || (!value.contains('/') && valid_label(value));
    let taint = ReadTaint { key: key.into(), value: value.into(), effect: effect.into() };
    (valid_label(key) && is_value).then_some(taint)
}
