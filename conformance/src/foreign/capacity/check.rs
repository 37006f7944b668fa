//! Checks of the content of a manifest that its types do not make.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sim::document::DocumentError;

use super::super::manifest::template::names;
use super::manifest::{Manifest, Process};
use crate::checks::capacity::expected::{amount, difference};
use crate::lab::capacity::{Expected, Management};

/// Names of placeholders, beside environment variables.
const PLACEHOLDERS: [&str; 5] = ["dir", "kubeconfig", "ca", "manifest.dir", "conformance"];

/// Shortest time in which a check counts requests per second.
const LEAST_QUIET: Duration = Duration::from_secs(1);

impl Manifest {
    /// Checks command, times, samples and change.
    ///
    /// # Errors
    /// The first value that is wrong, with its key.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        self.check_command()?;
        self.check_times()?;
        self.check_samples()?;
        self.check_change()
    }

    fn check_command(&self) -> Result<(), DocumentError> {
        let Process { command, env } = &self.spec.run.process;
        let key = "spec.run.process.command";
        if command.is_empty() {
            let remedy = "write the program and its arguments";
            return Err(DocumentError::at_key(key, &json!([]), "has no program", remedy));
        }
        let all = command.iter().chain(env.values()).flat_map(|text| names(text));
        let is_known =
            |name: &String| PLACEHOLDERS.contains(&name.as_str()) || name.starts_with("env.");
        let mut unknown = all.filter(|name| !is_known(name));
        unknown.next().map_or(Ok(()), |name| {
            let remedy = format!("write one of {}, or env.NAME", PLACEHOLDERS.join(", "));
            Err(DocumentError::at_key(
                key,
                &Value::from(name),
                "is not a known placeholder",
                remedy,
            ))
        })
    }

    fn check_times(&self) -> Result<(), DocumentError> {
        let capacity = &self.spec.capacity;
        for (name, time, least, problem, remedy) in [
            ("within", capacity.within, Duration::from_nanos(1), "is no time", "write 30s"),
            ("quiet", capacity.quiet, LEAST_QUIET, "is shorter than 1s", "write 1s or more"),
        ] {
            if time < least {
                let key = format!("spec.capacity.{name}");
                let text = sim::world::duration::format(time).into();
                return Err(DocumentError::at_key(&key, &text, problem, remedy));
            }
        }
        Ok(())
    }

    fn check_samples(&self) -> Result<(), DocumentError> {
        let samples = &self.spec.capacity.samples;
        if samples.is_empty() {
            let remedy = "write the spec of a template and its status";
            let key = "spec.capacity.samples";
            return Err(DocumentError::at_key(key, &json!([]), "has no sample", remedy));
        }
        let mut known = BTreeMap::new();
        for (n, sample) in samples.iter().enumerate() {
            check_status(&format!("spec.capacity.samples[{n}].status"), &sample.status)?;
            for (m, object) in sample.objects.iter().enumerate() {
                let key = format!("spec.capacity.samples[{n}].objects[{m}]");
                check_object(&key, object)?;
                // The samples share a cluster, in which an object exists once.
                let (first, other) = known.entry(identity(object)).or_insert((key.clone(), object));
                if *other != object {
                    let problem = format!("has other content than {first}");
                    let remedy = "give one of them another name, or the same content to both";
                    let name = &object["metadata"]["name"];
                    return Err(DocumentError::at_key(&key, name, &problem, remedy));
                }
            }
        }
        Ok(())
    }

    fn check_change(&self) -> Result<(), DocumentError> {
        let Some(change) = &self.spec.capacity.change else { return Ok(()) };
        let key = "spec.capacity.change";
        check_status(&format!("{key}.status"), &change.status)?;
        let wrong = |problem: &str, remedy: &str| {
            Err(DocumentError::at_key(key, &Value::Null, problem, remedy))
        };
        match (&change.spec, &change.object) {
            (Some(_), None) => {}
            (None, Some(object)) => self.check_changed_object(&format!("{key}.object"), object)?,
            _ => {
                let remedy = "write a patch of the template, or of one object";
                return wrong("needs exactly one of spec and object", remedy);
            }
        }
        let before = &self.spec.capacity.samples[0].status;
        let published = json!({"capacity": before.capacity, "nodeInfo": before.node_info});
        if difference(&without_empty(published), &change.status).is_none() {
            let remedy = "write a change after which the first sample has another status";
            return wrong("expects the status of the first sample", remedy);
        }
        Ok(())
    }

    /// Checks that a change patches an object that exists then.
    fn check_changed_object(&self, key: &str, object: &Value) -> Result<(), DocumentError> {
        check_object(key, object)?;
        let mut objects = self.spec.capacity.samples[0].objects.iter();
        if objects.any(|it| identity(it) == identity(object)) {
            return Ok(());
        }
        let problem = "is not one of spec.capacity.samples[0].objects";
        let remedy = "name an object of the first sample, or add it there";
        Err(DocumentError::at_key(key, &object["metadata"]["name"], problem, remedy))
    }
}

/// Returns what identifies an object: API group, kind, namespace and name.
fn identity(object: &Value) -> [&str; 4] {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").unwrap_or_default();
    [
        version.split_once('/').map_or("", |(group, _)| group),
        text("/kind").unwrap_or_default(),
        text("/metadata/namespace").unwrap_or(Management::NAMESPACE),
        text("/metadata/name").unwrap_or_default(),
    ]
}

/// Returns the status without keys that have no content.
fn without_empty(mut status: Value) -> Value {
    if let Some(map) = status.as_object_mut() {
        map.retain(|_, it| it.as_object().is_some_and(|it| !it.is_empty()));
    }
    status
}

fn check_status(key: &str, status: &Expected) -> Result<(), DocumentError> {
    for name in ["cpu", "memory"] {
        if !status.capacity.contains_key(name) {
            let key = format!("{key}.capacity.{name}");
            let remedy = "write the amount that must be published";
            return Err(DocumentError::at_key(&key, &Value::Null, "is missing", remedy));
        }
    }
    if let Some((name, text)) = status.capacity.iter().find(|(_, it)| amount(it).is_none()) {
        let (key, text) = (format!("{key}.capacity.{name}"), Value::from(text.as_str()));
        return Err(DocumentError::at_key(&key, &text, "is not a quantity", "write 4 or 8Gi"));
    }
    let fields: Vec<&str> = status.node_info.keys().map(String::as_str).collect();
    if fields.is_empty() || fields == ["architecture", "operatingSystem"] {
        return Ok(());
    }
    let remedy = "write architecture and operatingSystem, or leave nodeInfo out";
    let problem = "has not both fields of the contract";
    Err(DocumentError::at_key(&format!("{key}.nodeInfo"), &json!(fields), problem, remedy))
}

fn check_object(key: &str, object: &Value) -> Result<(), DocumentError> {
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if object.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
            let key = format!("{key}{}", pointer.replace('/', "."));
            return Err(DocumentError::at_key(&key, &Value::Null, "is missing", "write it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use sim::document;

    use super::super::manifest::{QUIET, WITHIN};
    use super::*;
    use crate::scenario::InputError;

    const SAMPLE: &str = "{spec: {}, status: {capacity: {cpu: '2', memory: 4Gi}}}";

    fn read(capacity: &str, command: &str) -> Result<Manifest, String> {
        let text = format!(
            "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {{name: x}}\nspec: {{mode: \
             capacity, run: {{process: {{command: {command}}}}}, capacity: {capacity}}}"
        );
        let content = document::yaml(text.as_bytes()).unwrap();
        Manifest::read("x.yaml", PathBuf::new(), content)
            .map_err(|wrong| InputError::in_document("x.yaml", wrong).to_string())
    }

    #[test]
    fn a_manifest_has_defaults_for_all_but_program_and_samples() {
        let manifest = read(&format!("{{samples: [{SAMPLE}]}}"), "[x, $(kubeconfig)]").unwrap();
        let pace = manifest.pace();
        assert_eq!((pace.within, pace.quiet), (WITHIN, QUIET));
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_key_and_remedy() {
        let with = |more: &str| format!("{{samples: [{SAMPLE}], {more}}}");
        let status = "status: {capacity: {cpu: '2', memory: 4Gi}}";
        let flavor = |name: &str, cpus: u8| {
            format!("{{apiVersion: a.b/v1, kind: Flavor, metadata: {{name: {name}}}, n: {cpus}}}")
        };
        for (capacity, command, expected) in [
            (with("speed: 1"), "[x]", "spec.capacity.speed"),
            ("{samples: []}".to_owned(), "[x]", "spec.capacity.samples: "),
            ("{}".to_owned(), "[x]", "samples"),
            (with(""), "[]", "spec.run.process.command"),
            (with(""), "[x, $(vcenter.host)]", "vcenter.host"),
            (with(&format!("change: {{{status}}}")), "[x]", "exactly one of spec and object"),
            (with(&format!("change: {{spec: {{a: 1}}, {status}}}")), "[x]", "first sample"),
            ("{samples: [{spec: {}, status: {}}]}".to_owned(), "[x]", "status.capacity.cpu"),
            (
                "{samples: [{spec: {}, status: {capacity: {cpu: x, memory: 1Gi}}}]}".to_owned(),
                "[x]",
                "is not a quantity",
            ),
            (
                "{samples: [{spec: {}, status: {capacity: {cpu: '1', memory: 1Gi}, nodeInfo: \
                 {architecture: amd64}}}]}"
                    .to_owned(),
                "[x]",
                "status.nodeInfo",
            ),
            (with("quiet: 0s"), "[x]", "spec.capacity.quiet: \"0s\": is shorter than 1s"),
            (with("quiet: 999ms"), "[x]", "spec.capacity.quiet: \"999ms\""),
            (with("within: 0s"), "[x]", "spec.capacity.within: \"0s\""),
            (
                format!(
                    "{{samples: [{{spec: {{}}, {status}, objects: [{}]}}, {{spec: {{}}, {status}, \
                     objects: [{}]}}]}}",
                    flavor("small", 2),
                    flavor("small", 4)
                ),
                "[x]",
                "samples[1].objects[0]: \"small\": has other content than \
                 spec.capacity.samples[0].objects[0]",
            ),
            (
                format!(
                    "{{samples: [{{spec: {{}}, {status}, objects: [{}]}}], change: {{object: {}, \
                     status: {{capacity: {{cpu: '4', memory: 4Gi}}}}}}}}",
                    flavor("small", 2),
                    flavor("big", 4)
                ),
                "[x]",
                "change.object: \"big\": is not one of",
            ),
            (
                format!("{{samples: [{{spec: {{}}, {status}, objects: [{{kind: Flavor}}]}}]}}"),
                "[x]",
                "objects[0].apiVersion",
            ),
        ] {
            let error = read(&capacity, command).unwrap_err();
            assert!(error.contains(expected) && error.contains("remedy: "), "{capacity}: {error}");
        }
    }
}
