//! World files (`kind: World`): the file of `sim serve --world`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sim_world::{SupervisorTopology, Topology};

use crate::document::{self, DocumentError};

const API_VERSION: &str = "sim.vsphere/v1alpha1";

/// Remedy for an event TTL that [`is_event_ttl`] rejects.
pub(super) const EVENT_TTL_REMEDY: &str = "write whole seconds, at least 1s, such as 5m";

/// True if a cluster can keep Events for this time: at least 1 s, in whole seconds, because leases
/// of etcd last whole seconds.
pub(super) fn is_event_ttl(ttl: Duration) -> bool {
    ttl >= Duration::from_secs(1) && ttl.subsec_nanos() == 0
}

/// Top level of the file; [`read`] parses `spec` separately.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    api_version: Value,
    kind: Value,
    #[serde(default, rename = "metadata")]
    _metadata: Metadata,
    #[serde(default)]
    spec: serde_json::Map<String, Value>,
}

/// Metadata, which the sim ignores.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Metadata {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "labels")]
    _labels: std::collections::BTreeMap<String, String>,
    #[serde(rename = "annotations")]
    _annotations: std::collections::BTreeMap<String, String>,
}

/// Parses a world file. Returns the topology, and the seed if the file has one. The error names the
/// key, the value and the remedy.
pub(crate) fn read(text: &[u8]) -> Result<(Topology, Option<u64>), DocumentError> {
    let mut spec = spec(text)?;
    // `spec` has the keys of a `Topology`, and the seed.
    let seed = spec.remove("seed").map_or(Ok(None), read_seed)?;
    let topology: Topology = document::typed(Value::Object(spec))
        .map_err(|wrong| wrong.or_remedy("write a value that fits the key").prefix_key("spec"))?;
    check_topology(&topology)?;
    topology.supervisor.as_ref().map_or(Ok(()), check_supervisor)?;
    Ok((topology, seed))
}

/// Checks the head of a world file, and returns its `spec`.
fn spec(text: &[u8]) -> Result<serde_json::Map<String, Value>, DocumentError> {
    let document = document::yaml(text)?;
    let remedy = || format!("begin with `apiVersion: {API_VERSION}` and `kind: World`");
    match &document {
        Value::Object(_) => {}
        Value::Null => return Err(DocumentError::document("the file is empty", remedy())),
        other => {
            return Err(DocumentError::at_key("", other, "keys and values are expected", remedy()));
        }
    }
    let file: File = document::typed(document).map_err(|wrong| wrong.or_remedy(&remedy()))?;
    for (key, value, want) in
        [("apiVersion", &file.api_version, API_VERSION), ("kind", &file.kind, "World")]
    {
        if value != want {
            return Err(DocumentError::at_key(
                key,
                value,
                "is not supported",
                format!("write {want}"),
            ));
        }
    }
    Ok(file.spec)
}

/// Parses `spec.seed`. Returns `None` for null.
fn read_seed(seed: Value) -> Result<Option<u64>, DocumentError> {
    let wrong = || {
        DocumentError::at_key(
            "spec.seed",
            &seed,
            "is not a valid seed",
            "write a whole number, 0 or greater",
        )
    };
    if seed.is_null() { Ok(None) } else { seed.as_u64().map(Some).ok_or_else(wrong) }
}

/// Checks the values that the type of a key permits and a world cannot have.
fn check_topology(topology: &Topology) -> Result<(), DocumentError> {
    for (key, value) in [("spec.vcenters", topology.vcenters), ("spec.hosts", topology.hosts)] {
        if value == 0 {
            return Err(DocumentError::at_key(
                key,
                &value.into(),
                "must be at least 1",
                "write 1 or more",
            ));
        }
    }
    if !is_event_ttl(topology.event_ttl) {
        let ttl = sim_world::duration::format(topology.event_ttl);
        return Err(DocumentError::at_key(
            "spec.eventTtl",
            &ttl.into(),
            "is not a valid time",
            EVENT_TTL_REMEDY,
        ));
    }
    Ok(())
}

/// Checks the names of the namespace and of the workload cluster.
fn check_supervisor(supervisor: &SupervisorTopology) -> Result<(), DocumentError> {
    let SupervisorTopology { namespace, cluster } = supervisor;
    for (key, value) in
        [("spec.supervisor.namespace", namespace), ("spec.supervisor.cluster", cluster)]
    {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_label = !value.is_empty() && value.len() <= 41 && value.chars().all(is_plain);
        if !is_label || value.starts_with('-') || value.ends_with('-') {
            let remedy =
                "write 1 to 41 lower-case letters, digits and dashes, without a dash at either end";
            return Err(DocumentError::at_key(
                key,
                &value.as_str().into(),
                "is not a valid name",
                remedy,
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_file_sets_seed_zones_machines_and_timing() {
        let text = b"apiVersion: sim.vsphere/v1alpha1\nkind: World\nmetadata: {name: lab}\n\
            spec:\n  seed: 7\n  eventTtl: 5m\n  zones: 3\n  machines: 100\n  timing:\n    scale: 0.5\n    steps: {tools: {after: 3s}, task: immediately}\n";
        let (topology, seed) = read(text).unwrap();
        assert_eq!((seed, topology.zones, topology.machines), (Some(7), 3, 100));
        assert_eq!(topology.timing.steps.len(), 2);
        assert_eq!(topology.event_ttl, Duration::from_secs(300));
    }

    #[test]
    fn an_invalid_world_file_is_refused_with_its_key_and_a_remedy() {
        let head = "apiVersion: sim.vsphere/v1alpha1\nkind: World\n";
        for (name, text, want) in [
            (
                "nothing",
                "# only a comment\n".to_owned(),
                "the file is empty | begin with `apiVersion: sim.vsphere/v1alpha1` and `kind: World`",
            ),
            (
                "a list",
                "[1]".to_owned(),
                "[1]: keys and values are expected | begin with `apiVersion: sim.vsphere/v1alpha1` and `kind: World`",
            ),
            (
                "a text as metadata",
                format!("{head}metadata: lab"),
                "metadata: \"lab\": invalid value | write keys and values",
            ),
            (
                "a number of nodes",
                format!("{head}spec: {{nodes: 3}}"),
                "spec.nodes: 3: invalid value | write a word, or one key with its value",
            ),
            (
                "no kind",
                "apiVersion: sim.vsphere/v1alpha1\n".to_owned(),
                "kind: is missing | add this key",
            ),
            (
                "another kind",
                "apiVersion: v1\nkind: Pod\n".to_owned(),
                "apiVersion: \"v1\": is not supported | write sim.vsphere/v1alpha1",
            ),
            (
                "a misspelt key",
                format!("{head}spec: {{machnes: 3}}"),
                "spec.machnes: unknown key | did you mean `machines`?",
            ),
            (
                "a misspelt step",
                format!("{head}spec: {{timing: {{steps: {{tool: immediately}}}}}}"),
                "spec.timing.steps: tool: is not known | did you mean `tools`?",
            ),
            (
                "an event TTL of a fraction of a second",
                format!("{head}spec: {{eventTtl: 1500ms}}"),
                "spec.eventTtl: \"1s500ms\": is not a valid time | write whole seconds, at least 1s, such as 5m",
            ),
            (
                "a wrong type",
                format!("{head}spec: {{zones: three}}"),
                "spec.zones: \"three\": invalid value | write a whole number, 0 or greater",
            ),
            (
                "a negative seed",
                format!("{head}spec: {{seed: -1}}"),
                "spec.seed: -1: is not a valid seed | write a whole number, 0 or greater",
            ),
            (
                "an invalid namespace",
                format!("{head}spec: {{supervisor: {{namespace: A}}}}"),
                "spec.supervisor.namespace: \"A\": is not a valid name | write 1 to 41 lower-case letters, digits and dashes, without a dash at either end",
            ),
            (
                "no vCenter",
                format!("{head}spec: {{vcenters: 0}}"),
                "spec.vcenters: 0: must be at least 1 | write 1 or more",
            ),
        ] {
            let wrong = read(text.as_bytes()).unwrap_err();
            assert_eq!(format!("{} | {}", wrong.summary(), wrong.remedy), want, "{name}");
        }
    }
}
