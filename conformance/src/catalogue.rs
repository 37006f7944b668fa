//! The table of every check: what it promises, for whom, why, and where the promise comes from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;

/// The committed table.
const TABLE: &str = include_str!("../catalogue.yaml");

/// How binding a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Requirement {
    /// A failure is a defect.
    Must,
    /// A failure needs a reason.
    Should,
    /// For information.
    Info,
}

/// An enum whose values are one word each, in the table, on the command line and in reports.
macro_rules! words {
    ($(#[$of:meta])* $type:ident { $($(#[$doc:meta])* $name:ident = $word:literal,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $word)] $name,)+
        }

        impl $type {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// As the table writes it.
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
    /// A rung of the ladder.
    Level {
        /// It starts, authenticates and initializes one node.
        Boots = "L0",
        /// It is correct while nothing fails.
        Correct = "L1",
        /// It is safe under every single fault.
        Safe = "L2",
        /// It is right again after every fault.
        Live = "L3",
        /// It keeps its budgets.
        Efficient = "L4",
        /// It stands many faults at once, for long.
        Hardened = "L5",
    }
}

words! {
    /// A kind of promise.
    Class {
        /// Something bad never happens; one occurrence is final.
        Safety = "safety",
        /// Something good happens in time.
        Liveness = "liveness",
        /// No more is done than is needed.
        Efficiency = "efficiency",
        /// The trouble of one is not that of another.
        Isolation = "isolation",
        /// Nothing is left behind.
        Hygiene = "hygiene",
        /// What Kubernetes expects of a cloud provider.
        Contract = "contract",
    }
}

impl Class {
    /// Whether a provider that does little keeps such a promise, so that one which could do little shows nothing.
    pub const fn asks_for_restraint(self) -> bool {
        matches!(self, Self::Safety | Self::Efficiency | Self::Hygiene)
    }
}

words! {
    /// A part of a provider that can be seen from outside.
    Surface {
        /// Nodes.
        Node = "node",
        /// Zones and regions.
        Zone = "zone",
        /// Load balancers.
        LoadBalancer = "lb",
        /// Routes.
        Route = "route",
        /// The autoscaler.
        Autoscaler = "autoscaler",
        /// Sessions and logins.
        Session = "session",
        /// Flags and files.
        Config = "config",
        /// Metrics, health and events.
        Observability = "observability",
        /// Secrets and certificates.
        Security = "security",
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Permanent ID.
    pub id: String,
    /// What holds.
    pub title: String,
    /// How binding it is.
    pub requirement: Requirement,
    /// Rung of the ladder.
    pub level: Level,
    /// Which kind of promise it is.
    pub class: Class,
    /// What it is about.
    pub surface: Surface,
    /// Backends it applies to.
    pub backends: Vec<String>,
    /// Profiles it belongs to.
    pub profiles: Vec<String>,
    /// Features it needs.
    pub features: Vec<String>,
    /// Where the promise comes from.
    pub source: String,
    /// The scenario that exercises it.
    pub scenario: Option<String>,
    /// How it is judged, exactly.
    pub oracle: String,
    /// The bound in calls, bytes or time, where there is one.
    pub budget: Option<String>,
    /// The bound in calls to what stands behind the provider, where the check counts them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<Backend, u64>,
    /// Why it matters.
    pub why: String,
    /// How a provider's author mends it.
    pub remedy: String,
    /// The check that says the same.
    #[serde(rename = "alias-of")]
    pub alias_of: Option<String>,
}

impl Entry {
    /// How many calls it allows with this backend.
    ///
    /// # Panics
    /// For an entry without: a test holds checks and catalogue together.
    pub fn allowed(&self, backend: Backend) -> u64 {
        self.calls[&backend]
    }

    /// The bound in words, where there is one.
    pub fn bound(&self) -> Option<String> {
        let calls = self.calls.iter().map(|(at, n)| format!("{}: at most {n} calls", at.name()));
        let calls: Vec<String> = self.budget.iter().cloned().chain(calls).collect();
        (!calls.is_empty()).then(|| calls.join("; "))
    }

    /// Whether it asks for more than the contract of Kubernetes.
    pub fn is_policy(&self) -> bool {
        self.source.starts_with("policy")
    }
}

/// Every entry, in the table's order.
pub fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| serde_saphyr::from_str(TABLE).expect("a test reads the committed table"))
}

/// The entry with this ID.
pub fn entry(id: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.id == id)
}

/// What to tell someone who asks for an ID that is not there.
pub fn unknown_id(id: &str) -> String {
    let known = entries().iter().map(|entry| entry.id.as_str());
    let hint = nearest(&id.to_uppercase(), known).map(|near| format!("; is it {near}?"));
    let hint = hint.unwrap_or_else(|| "; `conformance list --all` names them".to_owned());
    format!("no check is called {id:?}{hint}")
}

/// The known word that takes the fewest edits to get to; none where more than half of it would be another.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|it| (edits(word, it), it));
    let (n, near) = scored.min_by_key(|(n, _)| *n)?;
    (2 * n <= near.chars().count()).then_some(near)
}

/// Levenshtein's distance.
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
    fn the_table_reads_and_its_ids_are_unique() {
        let ids: BTreeSet<&str> = entries().iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids.len(), entries().len());
        assert!(ids.len() > 150);
    }

    #[test]
    fn what_is_misspelled_is_recognized_and_what_is_nothing_is_not() {
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
    fn aliases_point_to_checks_that_are_none() {
        for it in entries() {
            if let Some(target) = &it.alias_of {
                let target = entry(target).unwrap_or_else(|| panic!("{}: no {target}", it.id));
                assert!(target.alias_of.is_none(), "{} points to another alias", it.id);
            }
        }
    }

    #[test]
    fn every_check_that_runs_stands_in_the_table_once_and_is_no_alias() {
        let mut seen = BTreeSet::new();
        for backend in Backend::ALL {
            for check in crate::checks::all(backend) {
                let id = check.id;
                let entry = entry(id).unwrap_or_else(|| panic!("{id} is not in the table"));
                assert!(entry.alias_of.is_none(), "{id} is an alias");
                assert!(seen.insert((backend, id)), "{id} is there twice");
                assert!(!check.cases.is_empty(), "{id} has no cases");
                let declared = entry.backends.iter().any(|it| it == backend.as_str());
                assert!(declared, "the table does not say that {id} speaks of {backend}");
            }
        }
        assert!(seen.len() >= 140, "only {} checks run", seen.len());
    }

    #[test]
    fn budgets_are_numbers_where_checks_count_calls() {
        let entry = entry("EFF-009").unwrap();
        let bound = entry.bound().unwrap();
        assert_eq!(bound, "vCenter: at most 4 calls; Supervisor: at most 2 calls");
        assert_eq!(Backend::ALL.map(|it| entry.allowed(it)), [4, 2]);
        // What checks count stands nowhere else as a sentence.
        for it in entries().iter().filter(|it| !it.calls.is_empty()) {
            assert_eq!(it.budget, None, "{}", it.id);
        }
    }

    #[test]
    fn what_is_run_in_one_mode_is_run_in_every_mode_that_the_table_names() {
        let run: Vec<(Backend, &str)> = Backend::ALL
            .into_iter()
            .flat_map(|it| crate::checks::all(it).into_iter().map(move |check| (it, check.id)))
            .collect();
        for it in entries().iter().filter(|it| run.iter().any(|(_, id)| *id == it.id)) {
            for backend in Backend::ALL {
                let declared = it.backends.iter().any(|name| name == backend.as_str());
                let is_run = run.contains(&(backend, it.id.as_str()));
                assert_eq!(is_run, declared, "{} in {}", it.id, backend.title());
            }
        }
    }
}
