//! The manifest of a reconciler of machine templates: `kind: Provider` with `mode: capacity`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sim::document::{self, DocumentError};

use super::super::manifest::template::names;
use super::super::manifest::{Implementation, header};
use super::definition::{self, Definition};
use crate::checks::capacity::expected::{amount, difference};
use crate::lab::capacity::{Change, Definitions, Expected, Pace, Sample, Server, TemplateKind};
use crate::scenario::InputError;

const MODE: &str = "capacity";
const WITHIN: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(3);
/// Time for which a write is held up; shorter than the time-outs of clients.
const HOLD: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);
/// Names of placeholders, beside environment variables.
const PLACEHOLDERS: [&str; 5] = ["dir", "kubeconfig", "ca", "manifest.dir", "conformance"];

/// Manifest of a reconciler of machine templates.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct Manifest {
    /// Path of the manifest.
    pub(super) origin: String,
    pub(super) name: String,
    pub(super) spec: Spec,
    /// Folder to which paths in the manifest are relative.
    pub(super) folder: PathBuf,
}

/// Content of the manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Spec {
    /// Description of the reconciler, for the report.
    #[serde(default)]
    pub(super) implementation: Implementation,
    #[serde(rename = "mode")]
    _mode: String,
    pub(super) run: Run,
    capacity: Capacity,
}

/// The driver, which is always a process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) process: Process,
}

/// A program on this computer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Process {
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// Environment variables, in addition to `PATH`, `HOME` and `TMPDIR`.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

/// Samples of the kind, and the pace of the reconciler.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Capacity {
    /// Files with definitions of further kinds, relative to the manifest.
    #[serde(default)]
    definitions: Vec<PathBuf>,
    /// Time within which the reconciler must react (default: 30 s).
    #[serde(default = "within", with = "sim::world::duration")]
    within: Duration,
    /// Time for which a check looks whether nothing happens (default: 3 s).
    #[serde(default = "quiet", with = "sim::world::duration")]
    quiet: Duration,
    samples: Vec<Sample>,
    change: Option<Change>,
}

const fn within() -> Duration {
    WITHIN
}

const fn quiet() -> Duration {
    QUIET
}

impl Manifest {
    /// Reads the manifest in this file; `None` if the file is no manifest of a reconciler of
    /// templates, so that another reader tells what is wrong with it.
    ///
    /// # Errors
    /// If the manifest is invalid.
    pub(in crate::foreign) fn load(path: &str) -> Result<Option<Self>, InputError> {
        let Ok(text) = std::fs::read(path) else { return Ok(None) };
        let Ok(content) = document::yaml(&text) else { return Ok(None) };
        if content["spec"]["mode"] != MODE {
            return Ok(None);
        }
        let parent = Path::new(path).parent().filter(|it| !it.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new(".")).to_owned();
        let read = Self::read(path, folder, content);
        read.map(Some).map_err(|wrong| InputError::in_document(path, wrong))
    }

    fn read(path: &str, folder: PathBuf, content: Value) -> Result<Self, DocumentError> {
        let (name, spec) = header(content)?;
        let spec: Spec = document::typed(spec).map_err(|wrong| wrong.prefix_key("spec"))?;
        let manifest = Self { origin: path.to_owned(), name, spec, folder };
        manifest.check_command()?;
        manifest.check_samples()?;
        manifest.check_change()?;
        Ok(manifest)
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

    fn check_samples(&self) -> Result<(), DocumentError> {
        let samples = &self.spec.capacity.samples;
        if samples.is_empty() {
            let remedy = "write the spec of a template and its status";
            let key = "spec.capacity.samples";
            return Err(DocumentError::at_key(key, &json!([]), "has no sample", remedy));
        }
        for (n, sample) in samples.iter().enumerate() {
            check_status(&format!("spec.capacity.samples[{n}].status"), &sample.status)?;
            for (m, object) in sample.objects.iter().enumerate() {
                check_object(&format!("spec.capacity.samples[{n}].objects[{m}]"), object)?;
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
            (None, Some(object)) => check_object(&format!("{key}.object"), object)?,
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

    /// Returns the kind of the templates with its samples.
    ///
    /// # Errors
    /// If a file cannot be used, or a sample does not fit the definitions.
    pub(super) fn kind(&self, template: &Definition) -> Result<TemplateKind, InputError> {
        let Capacity { definitions, samples, change, .. } = &self.spec.capacity;
        let mut all = vec![template.content.clone()];
        for path in definitions {
            all.push(definition::read(&self.folder.join(path).display().to_string())?);
        }
        let definitions = Definitions(all);
        let of_samples = samples.iter().flat_map(|it| &it.objects);
        let of_change = change.iter().filter_map(|it| it.object.as_ref());
        let in_manifest = |wrong| InputError::in_document(&*self.origin, wrong);
        for object in of_samples.chain(of_change) {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or_default();
            let group = version.split_once('/').map_or("", |(group, _)| group);
            if !group.is_empty() && definitions.of_kind(group, kind).is_none() {
                let remedy = "add a file with its definition to spec.capacity.definitions";
                let problem = "no definition has this kind";
                let key = "spec.capacity.samples.objects";
                let name = format!("{kind}.{group}").into();
                return Err(in_manifest(DocumentError::at_key(key, &name, problem, remedy)));
            }
        }
        let has_info = samples.iter().any(|it| !it.status.node_info.is_empty());
        if has_info && !template.has_node_info {
            let remedy = "leave nodeInfo out, or add it to the definition";
            let problem = "has nodeInfo, which the status of the kind has not";
            let key = "spec.capacity.samples";
            let kind = template.kind.as_str().into();
            return Err(in_manifest(DocumentError::at_key(key, &kind, problem, remedy)));
        }
        Ok(TemplateKind {
            server: Server::Cluster,
            definitions,
            api_version: template.api_version.clone(),
            kind: template.kind.clone(),
            samples: samples.clone(),
            change: change.clone(),
        })
    }

    /// Returns the times that checks wait.
    pub(super) fn pace(&self) -> Pace {
        let Capacity { within, quiet, .. } = self.spec.capacity;
        Pace { within, quiet, hold: HOLD, look: LOOK }
    }
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
    use super::*;

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
