//! The manifest of a reconciler of machine templates: `kind: Provider` with `mode: capacity`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sim::document::{self, DocumentError};

use super::super::manifest::{Implementation, header};
use super::definition::{self, Definition, DefinitionFile};
use crate::lab::capacity::{Change, Definitions, Pace, Sample, Server, TemplateKind};
use crate::scenario::InputError;

const MODE: &str = "capacity";
pub(super) const WITHIN: Duration = Duration::from_secs(30);
pub(super) const QUIET: Duration = Duration::from_secs(3);
/// Time for which a write is held up; shorter than the time-outs of clients.
const HOLD: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);

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
    pub(super) capacity: Capacity,
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
pub(super) struct Capacity {
    /// Files with definitions of further kinds, relative to the manifest.
    #[serde(default)]
    definitions: Vec<PathBuf>,
    /// Time within which the reconciler must react (default: 30 s); not zero.
    #[serde(default = "within", with = "sim::world::duration")]
    pub(super) within: Duration,
    /// Time for which a check looks whether nothing happens (default: 3 s); at least 1 s.
    #[serde(default = "quiet", with = "sim::world::duration")]
    pub(super) quiet: Duration,
    pub(super) samples: Vec<Sample>,
    pub(super) change: Option<Change>,
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

    pub(super) fn read(path: &str, folder: PathBuf, content: Value) -> Result<Self, DocumentError> {
        let (name, spec) = header(content)?;
        let spec: Spec = document::typed(spec).map_err(|wrong| wrong.prefix_key("spec"))?;
        let manifest = Self { origin: path.to_owned(), name, spec, folder };
        manifest.check()?;
        Ok(manifest)
    }

    /// Reads the definitions of further kinds.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(super) fn definitions(&self) -> Result<Vec<DefinitionFile>, InputError> {
        let paths = self.spec.capacity.definitions.iter();
        let read = |path| definition::read(&self.folder.join(path).display().to_string());
        paths.map(read).collect()
    }

    /// Returns the kind of the templates with its samples. `further` are the other definitions.
    ///
    /// # Errors
    /// If a sample or the change does not fit the definitions.
    pub(super) fn kind(
        &self,
        template: &Definition,
        further: &[DefinitionFile],
    ) -> Result<TemplateKind, InputError> {
        let Capacity { samples, change, .. } = &self.spec.capacity;
        let all = std::iter::once(&template.file).chain(further);
        let definitions = Definitions(all.map(|it| it.content.clone()).collect());
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
        let of_samples = samples.iter().enumerate();
        let of_samples = of_samples.map(|(n, it)| (format!("samples[{n}]"), &it.status));
        let of_change = change.iter().map(|it| ("change".to_owned(), &it.status));
        let mut statuses = of_samples.chain(of_change);
        let with_info = statuses.find(|(_, status)| !status.node_info.is_empty());
        if let Some((key, _)) = with_info.filter(|_| !template.has_node_info) {
            let remedy = "leave it out, or add it to the definition";
            let problem = "the status of this kind has no nodeInfo";
            let key = format!("spec.capacity.{key}.status.nodeInfo");
            let kind = template.kind.as_str().into();
            return Err(in_manifest(DocumentError::at_key(&key, &kind, problem, remedy)));
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
