//! The catalogue: for each check its promise, the providers to which it applies, its reason and its
//! source.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize};

use crate::scenario::{Backend, InputError};

/// Text of `catalogue.yaml`.
const TABLE: &str = include_str!("../catalogue.yaml");

/// Permanent ID of a check, such as NODE-DEL-010.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CheckId(&'static str);

impl CheckId {
    pub(crate) const fn new(id: &'static str) -> Self {
        Self(id)
    }

    /// Returns the ID as text.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// True if the ID begins with this text.
    pub fn starts_with(self, prefix: &str) -> bool {
        self.0.starts_with(prefix)
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// Keeps the text until the end of the process, as [`entries`] keeps the catalogue.
impl<'de> Deserialize<'de> for CheckId {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        String::deserialize(text).map(|id| Self(id.leak()))
    }
}

/// Requirement level of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Requirement {
    /// A failure is a defect of the provider.
    Must,
    /// A failure is acceptable if the provider has a reason for it.
    Should,
    /// The result is only information.
    Info,
}

/// Defines an enum with one word per value. This word stands for the value in `catalogue.yaml` and
/// in reports, and for surfaces also on the command line.
macro_rules! words {
    ($(#[$of:meta])* $type:ident { $($(#[$doc:meta])* $name:ident = $word:literal,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $word)] $name,)+
        }

        impl $type {
            /// Every value, in the order of its definition.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the word that stands for the value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// Level of a check, from the basic promises (L0) to the most demanding ones (L5).
    Level {
        /// The provider starts, authenticates and initializes one node.
        Boots = "L0",
        /// The provider is correct while nothing fails.
        Correct = "L1",
        /// The provider is safe under every single fault.
        Safe = "L2",
        /// The provider recovers from every fault.
        Live = "L3",
        /// The provider keeps its budgets.
        Efficient = "L4",
        /// The provider withstands many faults at once, for a long time.
        Hardened = "L5",
    }
}

words! {
    /// Class of a promise.
    Class {
        /// The provider never does something harmful. One violation is final: no repetition of the
        /// check excuses it.
        Safety = "safety",
        /// The provider does its work in time.
        Liveness = "liveness",
        /// The provider needs few calls, bytes and other resources.
        Efficiency = "efficiency",
        /// A failure of one object or server does not affect the others.
        Isolation = "isolation",
        /// The provider leaves no sessions or other objects behind.
        Hygiene = "hygiene",
        /// The provider meets the expectations of Kubernetes.
        Contract = "contract",
    }
}

impl Class {
    /// True if a provider can keep promises of this class by doing nothing, so that a run proves
    /// them only if the provider worked in it.
    pub const fn holds_if_idle(self) -> bool {
        matches!(self, Self::Safety | Self::Efficiency | Self::Hygiene)
    }
}

words! {
    /// Surface of a promise: the part of a provider's visible behavior that the promise is about.
    Surface {
        /// Node objects.
        Node = "node",
        /// Zones and regions of nodes.
        Zone = "zone",
        /// Load balancers for Services.
        LoadBalancer = "lb",
        /// Routes for pod networks.
        Route = "route",
        /// Cooperation with the cluster autoscaler.
        Autoscaler = "autoscaler",
        /// Capacity of machine templates, from which an autoscaler adds machines to an empty group.
        Capacity = "capacity",
        /// Sessions and logins.
        Session = "session",
        /// Command line flags and configuration files.
        Config = "config",
        /// Metrics, health checks and Kubernetes Events.
        Observability = "observability",
        /// Access rights, certificates, and the secrecy of credentials.
        Security = "security",
    }
}

/// One entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Permanent ID of the check.
    pub id: CheckId,
    /// Promise of the check, as a sentence.
    pub title: String,
    /// Requirement level.
    pub requirement: Requirement,
    /// Level of the check.
    pub level: Level,
    /// Class of the promise.
    pub class: Class,
    /// Surface that the promise is about.
    pub surface: Surface,
    /// Backends to which the check applies: `vcenter`, `supervisor`, and `nsx`, for which no check
    /// has cases yet.
    pub backends: Vec<String>,
    /// Groups of checks to which the check belongs, such as `NODE-VCENTER`.
    pub profiles: Vec<String>,
    /// Features that a provider needs for the check to apply.
    pub features: Vec<String>,
    /// Source of the promise, such as a file of upstream; begins with `policy` if the check
    /// requires more than the contract of Kubernetes.
    pub source: String,
    /// Name of the scenario that tests the promise, or `None` if none exists yet.
    pub scenario: Option<String>,
    /// Exact rule by which the judge decides.
    pub oracle: String,
    /// Bound in calls, bytes or time, as text, if the check has one.
    pub budget: Option<String>,
    /// Maximum number of calls by backend, if the check counts calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<Backend, u64>,
    /// Reason for the promise, which `conformance explain` prints.
    pub why: String,
    /// Advice for the author of a provider that fails the check.
    pub remedy: String,
    /// ID of the check that tests the same promise, if this entry is an alias.
    #[serde(rename = "alias-of")]
    pub alias_of: Option<CheckId>,
}

impl Entry {
    /// Returns the maximum number of calls with this backend.
    ///
    /// # Panics
    /// Panics if the entry has no number for this backend.
    pub fn allowed(&self, backend: Backend) -> u64 {
        self.calls[&backend]
    }

    /// Returns the budget and the numbers of calls as one text, or `None` if the entry has neither.
    pub fn bound(&self) -> Option<String> {
        let calls = self.calls.iter().map(|(at, n)| format!("{}: at most {n} calls", at.name()));
        let calls: Vec<String> = self.budget.iter().cloned().chain(calls).collect();
        (!calls.is_empty()).then(|| calls.join("; "))
    }

    /// True if the source is a policy, that is, the check requires more than the contract of
    /// Kubernetes.
    pub fn is_policy(&self) -> bool {
        self.source.starts_with("policy")
    }
}

/// Returns every entry, in the order of `catalogue.yaml`.
pub fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        serde_saphyr::from_str(TABLE).expect("a test proves that catalogue.yaml parses")
    })
}

/// Returns the entry with this ID, or `None` if the catalogue has none.
pub fn entry(id: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.id.as_str() == id)
}

/// Returns the error for an unknown ID, with the most similar known ID or, if none is similar, the
/// command that lists the IDs.
pub fn unknown_id(id: &str) -> InputError {
    let known = entries().iter().map(|entry| entry.id.as_str());
    let near = nearest(&id.to_uppercase(), known).map(|near| format!("did you mean {near}?"));
    let remedy = near.unwrap_or_else(|| "`conformance list --all` prints all IDs".to_owned());
    InputError::unknown("no check is called", id).remedy(remedy)
}

/// Returns the known word with the smallest edit distance to `word`. Returns `None` if this
/// distance exceeds half the length of the known word, or if `known` is empty.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|it| (edits(word, it), it));
    let (n, near) = scored.min_by_key(|(n, _)| *n)?;
    (2 * n <= near.chars().count()).then_some(near)
}

/// Returns the Levenshtein distance of two words, in characters.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_catalogue_parses_and_its_ids_are_unique() {
        let ids: BTreeSet<&str> = entries().iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids.len(), entries().len());
        assert!(ids.len() > 150);
    }

    #[test]
    fn a_misspelled_id_gets_a_suggestion_and_an_unrelated_word_gets_none() {
        for (word, near) in [
            ("NODE-DEL-099", Some("NODE-DEL-009")),
            ("NODE-DEL-1", Some("NODE-DEL-001")),
            ("EFF001", Some("EFF-001")),
            ("", None),
            ("what?", None),
        ] {
            let known = entries().iter().map(|entry| entry.id.as_str());
            assert_eq!(nearest(word, known), near, "{word}");
        }
    }

    #[test]
    fn an_alias_points_to_a_check_that_is_not_an_alias() {
        for it in entries() {
            if let Some(target) = it.alias_of {
                let target = entry(target.as_str()).unwrap_or_else(|| {
                    panic!("{}: the catalogue lacks the alias target {target}", it.id)
                });
                assert!(target.alias_of.is_none(), "the alias {} points to another alias", it.id);
            }
        }
    }

    #[test]
    fn every_check_is_in_the_catalogue_once_and_is_not_an_alias() {
        let mut seen = BTreeSet::new();
        for backend in Backend::ALL {
            for check in crate::checks::all(backend) {
                let id = check.id;
                let entry =
                    entry(id.as_str()).unwrap_or_else(|| panic!("{id} is not in the catalogue"));
                assert!(
                    entry.alias_of.is_none(),
                    "{id} has cases, but the catalogue declares it an alias"
                );
                assert!(seen.insert((backend, id)), "{id} occurs twice");
                assert!(!check.cases.is_empty(), "{id} has no cases");
                let declared = entry.backends.iter().any(|it| it == backend.as_str());
                assert!(
                    declared,
                    "the catalogue does not list {backend} among the backends of {id}"
                );
            }
        }
        assert!(seen.len() >= 140, "only {} checks run", seen.len());
    }

    #[test]
    fn the_catalogue_has_exactly_the_checks_of_servers_for_the_autoscaler() {
        let scenario = Some("autoscaler");
        let planned = entries().iter().filter(|it| it.scenario.as_deref() == scenario);
        let planned: Vec<&str> = planned.map(|it| it.id.as_str()).collect();
        let all = crate::checks::autoscaler::all();
        let run: Vec<&str> = all.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(run, planned);
    }

    #[test]
    fn the_catalogue_has_exactly_the_checks_of_reconcilers_of_templates() {
        let planned = entries().iter().filter(|it| it.surface == Surface::Capacity);
        let planned: Vec<&str> = planned.map(|it| it.id.as_str()).collect();
        let all = crate::checks::capacity::all();
        let run: Vec<&str> = all.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(run, planned);
    }

    #[test]
    fn an_entry_that_bounds_calls_has_numbers_and_no_budget_text() {
        let entry = entry("EFF-009").unwrap();
        let bound = entry.bound().unwrap();
        assert_eq!(bound, "vCenter: at most 4 calls; Supervisor: at most 2 calls");
        assert_eq!(Backend::ALL.map(|it| entry.allowed(it)), [4, 2]);
        // An entry with numbers of calls must not repeat them as text.
        for it in entries().iter().filter(|it| !it.calls.is_empty()) {
            assert_eq!(it.budget, None, "{}", it.id);
        }
    }

    #[test]
    fn a_check_runs_in_exactly_the_modes_that_the_catalogue_names() {
        let run: Vec<(Backend, CheckId)> = Backend::ALL
            .into_iter()
            .flat_map(|it| crate::checks::all(it).into_iter().map(move |check| (it, check.id)))
            .collect();
        for it in entries().iter().filter(|it| run.iter().any(|(_, id)| *id == it.id)) {
            for backend in Backend::ALL {
                let declared = it.backends.iter().any(|name| name == backend.as_str());
                let is_run = run.contains(&(backend, it.id));
                assert_eq!(is_run, declared, "{} in {}", it.id, backend.title());
            }
        }
    }
}
