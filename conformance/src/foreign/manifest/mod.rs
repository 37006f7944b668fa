//! The manifest of `kind: Provider`: describes a provider of any vendor, how to start it, and the
//! features that it lacks.
//!
//! [`Manifest::read`] is strict: an unknown key, an unknown placeholder, an unknown check or an
//! expired skip is an error with key, value and remedy, before the driver starts anything.

pub(super) mod builtin;
pub(super) mod template;

mod check;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::Date;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sim::document::{self, DocumentError};

use crate::scenario::{Backend, InputError};
use run::RunSection;
pub(super) use run::{Container, Driver, Process, address, user};
use template::Values;

const API_VERSION: &str = "sim.vsphere/v1alpha1";

/// Manifest of a provider of any vendor.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Source of the manifest: a path, or the name of a built-in one.
    pub origin: String,
    /// Directory of the manifest, to which the paths of templates are relative; `None` for a
    /// built-in manifest.
    pub directory: Option<PathBuf>,
    /// Name of the provider.
    pub name: String,
    /// Content of the manifest.
    pub spec: Spec,
}

/// Content of a manifest: the provider and how to start it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Description of the provider, for the report.
    #[serde(default)]
    pub implementation: Implementation,
    /// Backend of the provider (default: vCenter).
    #[serde(default)]
    pub mode: Backend,
    run: RunSection,
    /// Files that the driver writes for each replica of the provider, by name.
    #[serde(default)]
    pub files: BTreeMap<String, Source>,
    /// Condition under which the provider counts as started.
    #[serde(default)]
    pub ready: Ready,
    /// Settings that the driver passes to the provider as arguments. `$(value)` in an argument
    /// stands for the value.
    #[serde(default)]
    pub knobs: BTreeMap<Knob, KnobArguments>,
    /// Features beyond the contract of `k8s.io/cloud-provider` that the provider has or lacks.
    #[serde(default)]
    pub features: Features,
    /// Checks that the driver does not run, each with the reason.
    #[serde(default)]
    pub skips: Vec<Skip>,
}

/// Description of a provider, for the report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Implementation {
    /// Name of the organization.
    pub organization: String,
    /// Name of the project.
    pub project: String,
    /// URL of the project.
    pub url: String,
    /// Version that is judged.
    pub version: String,
    /// Contacts for questions.
    pub contact: Vec<String>,
}

/// Content of a file: the path of a template, relative to the manifest, or the template itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "the path of a template, or {text: …}")]
pub enum Source {
    /// Path of a template.
    Path(PathBuf),
    /// Text of a template.
    Inline(Inline),
}

/// A template in the manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inline {
    /// Text of the template, with placeholders such as `$(port)`.
    pub text: String,
}

/// Condition under which a provider counts as started: a call within a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Ready {
    /// Call in the ledger that shows that the provider has started. The driver does not look for
    /// the start in the provider's log.
    pub first_call: FirstCall,
    /// Maximum real time from the start of the process until this call (default: 60 s). After this
    /// time the case continues without the call.
    #[serde(with = "sim::world::duration")]
    pub timeout: Duration,
}

impl Default for Ready {
    fn default() -> Self {
        Self { first_call: FirstCall::default(), timeout: Duration::from_secs(60) }
    }
}

/// Call that shows that the provider has started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstCall {
    /// An operation of the ledger, or a class of operations such as `@login` (default: `@any`).
    pub op: String,
}

impl Default for FirstCall {
    fn default() -> Self {
        Self { op: "@any".to_owned() }
    }
}

/// Setting that the driver passes to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Knob {
    /// Period between checks of nodes that are not Ready, as a duration such as `500ms`.
    Monitor,
    /// Period between reads of all addresses, as a duration such as `30s`.
    Status,
    /// Leader election, `true` or `false`.
    LeaderElection,
    /// Switch that disables the deletion of Nodes; the only value is `true`.
    SkipDeletion,
    /// Maximum number of requests per second to the cluster, for each controller.
    Qps,
    /// IP families of the cluster in Supervisor mode in order of priority, such as `ipv6` or
    /// `ipv4ipv6`; set if a check names families.
    IpFamily,
    /// Labels for every node at initialization, as `key=value,key=value`; set if a check needs
    /// some.
    NodeLabels,
    /// Number of nodes that the provider initializes in parallel; set if it is not one.
    Workers,
    /// Log verbosity of klog; set to the highest, 10, in checks that search the log for secrets.
    Verbosity,
    /// A flag of Kubernetes' cloud controller managers, as a check writes it; set once for each
    /// flag that a check needs.
    Flags,
}

/// Names of all knobs in a manifest.
const KNOBS: [(Knob, &str); 10] = [
    (Knob::Monitor, "T.monitor"),
    (Knob::Status, "T.status"),
    (Knob::LeaderElection, "leaderElection"),
    (Knob::SkipDeletion, "skipDeletion"),
    (Knob::Qps, "qps"),
    (Knob::IpFamily, "ipFamily"),
    (Knob::NodeLabels, "nodeLabels"),
    (Knob::Workers, "workers"),
    (Knob::Verbosity, "verbosity"),
    (Knob::Flags, "flags"),
];

/// Deserializes from a string by hand, so that an error in the value of a knob names the knob.
impl<'de> Deserialize<'de> for Knob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const NAMES: [&str; KNOBS.len()] = {
            let mut names = [""; KNOBS.len()];
            let mut n = 0;
            while n < names.len() {
                names[n] = KNOBS[n].1;
                n += 1;
            }
            names
        };
        let text = String::deserialize(deserializer)?;
        let found = KNOBS.iter().find(|(_, name)| *name == text);
        found.map(|(knob, _)| *knob).ok_or_else(|| D::Error::unknown_variant(&text, &NAMES))
    }
}

/// Arguments that a knob adds to the command if the knob is set. A manifest contains one argument
/// or a list.
#[derive(Clone, Debug)]
pub struct KnobArguments(pub Vec<String>);

impl<'de> Deserialize<'de> for KnobArguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Vec<String>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an argument, or a list of them")
            }

            fn visit_str<E>(self, argument: &str) -> Result<Self::Value, E> {
                Ok(vec![argument.to_owned()])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut arguments = Vec::new();
                while let Some(argument) = list.next_element()? {
                    arguments.push(argument);
                }
                Ok(arguments)
            }
        }

        deserializer.deserialize_any(OneOrMore).map(Self)
    }
}

/// Features of a provider.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// Features that the provider has; for the report.
    pub supported: Vec<String>,
    /// Features that the provider lacks. Checks that need one of them are not run.
    pub unsupported: Vec<String>,
}

/// A check that the driver does not run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// ID of the check.
    pub check: String,
    /// Reason to skip it.
    pub reason: String,
    /// Issue that tracks the reason; empty if the manifest names none.
    #[serde(default)]
    pub issue: String,
    /// Last day of the skip.
    pub expires: Date,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    api_version: Value,
    kind: Value,
    metadata: Metadata,
    spec: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

/// Checks the header of a manifest. Returns the provider's name and the content of `spec`.
pub(super) fn header(content: Value) -> Result<(String, Value), DocumentError> {
    let File { api_version, kind, metadata, spec } = document::typed(content)?;
    for (key, value, want) in
        [("apiVersion", &api_version, API_VERSION), ("kind", &kind, "Provider")]
    {
        if value != want {
            let remedy = format!("write {want}");
            return Err(DocumentError::at_key(key, value, "is not known here", remedy));
        }
    }
    Ok((metadata.name, spec))
}

impl Manifest {
    /// True if the manifest lists this feature as unsupported.
    pub fn lacks(&self, feature: &str) -> bool {
        self.spec.features.unsupported.iter().any(|it| it == feature)
    }

    /// Reads the built-in manifest of this name, or the file at this path.
    ///
    /// # Errors
    /// Fails if the file cannot be read or its content is invalid, for example because a skip has
    /// expired before `today`.
    pub fn load(name: &str, today: Date) -> Result<Self, InputError> {
        if let Some(text) = builtin::text(name) {
            return Self::read(name, None, text, today);
        }
        let path = Path::new(name);
        let text = std::fs::read_to_string(path).map_err(|error| {
            let known: Vec<&str> = builtin::names().collect();
            let remedy = format!("name a file, or one of {}", known.join(", "));
            let wrong = DocumentError::document(format!("cannot be read: {error}"), remedy);
            InputError::in_document(name, wrong)
        })?;
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        Self::read(name, Some(directory.unwrap_or(Path::new("."))), &text, today)
    }

    /// Parses and validates a manifest. `origin` names it in errors. Paths of templates are
    /// relative to `directory`; `None` is for a built-in manifest.
    ///
    /// # Errors
    /// Fails if the content is invalid, for example because a skip has expired before `today`.
    pub fn read(
        origin: &str,
        directory: Option<&Path>,
        text: &str,
        today: Date,
    ) -> Result<Self, InputError> {
        let directory = directory.map(Path::to_owned);
        Self::checked(origin, directory, text, today)
            .map_err(|wrong| InputError::in_document(origin, wrong))
    }

    fn checked(
        origin: &str,
        directory: Option<PathBuf>,
        text: &str,
        today: Date,
    ) -> Result<Self, DocumentError> {
        let (name, spec) = header(document::yaml(text.as_bytes())?)?;
        let spec: Spec = document::typed(spec).map_err(|wrong| wrong.prefix_key("spec"))?;
        let manifest = Self { origin: origin.to_owned(), directory, name, spec };
        manifest.spec.run.driver()?.check()?;
        manifest.check_knobs()?;
        manifest.check_start()?;
        manifest.check_claims(today)?;
        manifest.check_placeholders()?;
        Ok(manifest)
    }

    /// Returns the driver that starts the provider.
    ///
    /// # Panics
    /// Never, because [`Self::read`] rejects a manifest without a driver.
    pub fn driver(&self) -> Driver<'_> {
        self.spec.run.driver().expect("a manifest has exactly one driver")
    }

    /// Returns the options that select the cluster, by key, with placeholders replaced; empty if
    /// the driver is not `cluster`.
    ///
    /// # Errors
    /// Returns the name of the first placeholder without a value.
    pub(super) fn place(&self, values: &Values) -> Result<BTreeMap<&'static str, String>, String> {
        let place = self.driver().place();
        place.map(|(key, text)| Ok((key, template::expand(text, values)?))).collect()
    }

    /// Returns the template of the file with this name. The manifest must have such a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn template(&self, name: &str) -> Result<String, DocumentError> {
        match &self.spec.files[name] {
            Source::Inline(Inline { text }) => Ok(text.clone()),
            Source::Path(path) => {
                let full = self.directory.as_deref().unwrap_or(Path::new("")).join(path);
                std::fs::read_to_string(&full).map_err(|error| {
                    let key = format!("spec.files.{name}");
                    let value = Value::from(path.display().to_string());
                    let remedy = "write a path relative to the manifest, or {text: …}";
                    DocumentError::at_key(&key, &value, &format!("cannot be read: {error}"), remedy)
                })
            }
        }
    }

    /// Returns the names of all placeholders in the manifest and its templates. Leaves out
    /// templates that cannot be read.
    pub(super) fn placeholders(&self) -> BTreeSet<String> {
        let driver = self.driver();
        let files = self.spec.files.keys().map(|name| self.template(name).unwrap_or_default());
        let knobs = self.spec.knobs.values().flat_map(|it| &it.0);
        let texts = driver.texts().chain(knobs.map(String::as_str)).map(str::to_owned).chain(files);
        texts.flat_map(|text| template::names(&text)).collect()
    }
}

impl Knob {
    /// Returns the name in a manifest.
    pub fn name(self) -> &'static str {
        KNOBS.iter().find(|(knob, _)| *knob == self).map_or("", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn cluster_examples_parse_and_take_the_kubeconfig_from_the_environment() {
        for mode in [Backend::VCenter, Backend::Supervisor] {
            let root = env!("CARGO_MANIFEST_DIR");
            let path = format!("{root}/examples/cluster/{mode}.yaml");
            let manifest = Manifest::load(&path, date(2026, 1, 1)).unwrap();
            assert_eq!((manifest.spec.mode, manifest.driver().name()), (mode, "cluster"));
            assert!(manifest.placeholders().contains("env.KUBECONFIG"));
            assert_eq!(manifest.place(&Values::new()), Err("env.KUBECONFIG".to_owned()));
            let values = Values::from([("env.KUBECONFIG".to_owned(), "/k".to_owned())]);
            let place = manifest.place(&values).unwrap();
            let want = [("kubeconfig", "/k"), ("namespace", "default")];
            assert!(place.iter().map(|(key, it)| (*key, it.as_str())).eq(want), "{place:?}");
        }
    }
}
