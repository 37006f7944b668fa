//! `kind: Provider`: what a provider of any vendor is, how it is started, and what it does not claim.
//!
//! A manifest is read strictly: an unknown key, a placeholder that nothing fills, an unknown check or a skip that
//! has expired is an error with key, value and remedy, before anything is started.

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
use sim::document::{self, Wrong};

use super::builtin;
use super::template::{self, Values};
use crate::backend::Backend;
use run::Run;
pub(super) use run::{Container, Driver, Process, address, user};

const API_VERSION: &str = "sim.vsphere/v1alpha1";

/// A provider of any vendor.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Where it was read from: a path, or the name of a built-in one.
    pub origin: String,
    /// The directory that its paths are relative to; none for a built-in one.
    pub directory: Option<PathBuf>,
    /// What it is called.
    pub name: String,
    /// What is judged.
    pub spec: Spec,
}

/// What is judged and how it is started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Whose it is.
    #[serde(default)]
    pub implementation: Implementation,
    /// Where it looks for machines.
    #[serde(default)]
    pub mode: Backend,
    run: Run,
    /// Files that are written for each of its processes.
    #[serde(default)]
    pub files: BTreeMap<String, Source>,
    /// What shows that it has started.
    #[serde(default)]
    pub ready: Ready,
    /// What is told to it in arguments, with `$(value)` where the value goes.
    #[serde(default)]
    pub knobs: BTreeMap<Knob, KnobArguments>,
    /// What it claims beyond the contract.
    #[serde(default)]
    pub features: Features,
    /// Checks that are not run, and why.
    #[serde(default)]
    pub skips: Vec<Skip>,
}

/// Whose it is; for the report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Implementation {
    /// The organization.
    pub organization: String,
    /// The project.
    pub project: String,
    /// Where it is found.
    pub url: String,
    /// Which version is judged.
    pub version: String,
    /// Whom to ask.
    pub contact: Vec<String>,
}

/// A file: the path of a template, relative to the manifest, or the template itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "the path of a template, or {text: …}")]
pub enum Source {
    /// A path.
    Path(PathBuf),
    /// A text.
    Inline(Inline),
}

/// A template in the manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inline {
    /// The template.
    pub text: String,
}

/// What shows that a provider has started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Ready {
    /// A call on the ledger. No log is read for it.
    pub first_call: FirstCall,
    /// How long it may take, in real time. Checks go on without it then.
    #[serde(with = "sim::world::duration")]
    pub timeout: Duration,
}

impl Default for Ready {
    fn default() -> Self {
        Self { first_call: FirstCall::default(), timeout: Duration::from_secs(60) }
    }
}

/// The call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstCall {
    /// An operation of the ledger, or a class of them such as `@login`.
    pub op: String,
}

impl Default for FirstCall {
    fn default() -> Self {
        Self { op: "@any".to_owned() }
    }
}

/// What the driver tells a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Knob {
    /// The monitor period, as a duration.
    Monitor,
    /// The address sync period, as a duration.
    Status,
    /// Whether a leader is elected, as `true` or `false`.
    LeaderElection,
    /// That nodes are not to be deleted; `true` where it is turned.
    SkipDeletion,
    /// Requests per second to the cluster.
    Qps,
    /// The cluster's families in Supervisor mode, as `ipv6` or `ipv4ipv6`; not turned for IPv4 alone.
    IpFamily,
    /// Labels that are added to every node at initialization, as `key=value,key=value`; turned where a check wants some.
    NodeLabels,
    /// How many nodes are initialized at a time; turned where it is not one.
    Workers,
    /// How much is logged, as klog counts it; turned, to the most, in checks that look for secrets.
    Verbosity,
}

/// Every knob as it is written.
const KNOBS: [(Knob, &str); 9] = [
    (Knob::Monitor, "T.monitor"),
    (Knob::Status, "T.status"),
    (Knob::LeaderElection, "leaderElection"),
    (Knob::SkipDeletion, "skipDeletion"),
    (Knob::Qps, "qps"),
    (Knob::IpFamily, "ipFamily"),
    (Knob::NodeLabels, "nodeLabels"),
    (Knob::Workers, "workers"),
    (Knob::Verbosity, "verbosity"),
];

/// As a text, so that an error below it names it.
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

/// What a knob adds to the command when it is turned: an argument, or a list of them.
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

/// What a provider claims.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// What it has; for the report.
    pub supported: Vec<String>,
    /// What it has not: checks that need it are not run.
    pub unsupported: Vec<String>,
}

/// A check that is not run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// Its ID.
    pub check: String,
    /// Why.
    pub reason: String,
    /// Where that is followed up.
    #[serde(default)]
    pub issue: String,
    /// The last day on which it is skipped.
    pub expires: Date,
}

/// Why a manifest cannot be used: the file, the key with its value, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    origin: String,
    wrong: Wrong,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.wrong.what())?;
        match self.wrong.remedy.as_str() {
            "" => Ok(()),
            remedy => write!(f, "\nremedy: {remedy}"),
        }
    }
}

impl std::error::Error for ManifestError {}

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

impl Manifest {
    /// Whether it declares that the provider has no such feature.
    pub fn lacks(&self, feature: &str) -> bool {
        self.spec.features.unsupported.iter().any(|it| it == feature)
    }

    /// The built-in manifest of this name, or the file at this path.
    ///
    /// # Errors
    /// What cannot be read, and what is wrong in it.
    pub fn load(name: &str, today: Date) -> Result<Self, ManifestError> {
        if let Some(text) = builtin::text(name) {
            return Self::read(name, None, text, today);
        }
        let path = Path::new(name);
        let text = std::fs::read_to_string(path).map_err(|error| {
            let known: Vec<&str> = builtin::names().collect();
            let remedy = format!("give a file, or one of {}", known.join(", "));
            let wrong = Wrong::document(format!("cannot be read: {error}"), remedy);
            ManifestError { origin: name.to_owned(), wrong }
        })?;
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        Self::read(name, Some(directory.unwrap_or(Path::new("."))), &text, today)
    }

    /// A manifest from its text.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn read(
        origin: &str,
        directory: Option<&Path>,
        text: &str,
        today: Date,
    ) -> Result<Self, ManifestError> {
        let directory = directory.map(Path::to_owned);
        Self::checked(origin, directory, text, today)
            .map_err(|wrong| ManifestError { origin: origin.to_owned(), wrong })
    }

    fn checked(
        origin: &str,
        directory: Option<PathBuf>,
        text: &str,
        today: Date,
    ) -> Result<Self, Wrong> {
        let File { api_version, kind, metadata, spec } =
            document::typed(document::yaml(text.as_bytes())?)?;
        for (key, value, want) in
            [("apiVersion", &api_version, API_VERSION), ("kind", &kind, "Provider")]
        {
            if value != want {
                return Err(Wrong::at(key, value, "is not known here", format!("write {want}")));
            }
        }
        let spec: Spec = document::typed(spec).map_err(|wrong| wrong.below("spec"))?;
        let manifest = Self { origin: origin.to_owned(), directory, name: metadata.name, spec };
        manifest.spec.run.driver()?.check()?;
        manifest.check_knobs()?;
        manifest.check_start()?;
        manifest.check_claims(today)?;
        manifest.check_placeholders()?;
        Ok(manifest)
    }

    /// How it is started.
    ///
    /// # Panics
    /// Never: a manifest that has none is not read.
    pub fn driver(&self) -> Driver<'_> {
        self.spec.run.driver().expect("a manifest without is refused")
    }

    /// What says where its cluster is, by key, with the placeholders replaced that these values have.
    ///
    /// # Errors
    /// The first that has no value.
    pub(super) fn place(&self, values: &Values) -> Result<BTreeMap<&'static str, String>, String> {
        let place = self.driver().place();
        place.map(|(key, text)| Ok((key, template::expand(text, values)?))).collect()
    }

    /// The text of a file of the manifest.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn template(&self, name: &str) -> Result<String, Wrong> {
        match &self.spec.files[name] {
            Source::Inline(Inline { text }) => Ok(text.clone()),
            Source::Path(path) => {
                let full = self.directory.as_deref().unwrap_or(Path::new("")).join(path);
                std::fs::read_to_string(&full).map_err(|error| {
                    let key = format!("spec.files.{name}");
                    let value = Value::from(path.display().to_string());
                    let remedy = "give a path relative to the manifest, or {text: …}";
                    Wrong::at(&key, &value, &format!("cannot be read: {error}"), remedy)
                })
            }
        }
    }

    /// Every placeholder that it uses.
    pub(super) fn placeholders(&self) -> BTreeSet<String> {
        let driver = self.driver();
        let files = self.spec.files.keys().map(|name| self.template(name).unwrap_or_default());
        let knobs = self.spec.knobs.values().flat_map(|it| &it.0);
        let texts = driver.texts().chain(knobs.map(String::as_str)).map(str::to_owned).chain(files);
        texts.flat_map(|text| template::names(&text)).collect()
    }
}

impl Knob {
    /// As it is written.
    pub fn name(self) -> &'static str {
        KNOBS.iter().find(|(knob, _)| *knob == self).map_or("", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn examples_of_a_cluster_can_be_read_and_lead_to_it() {
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
