//! A reconciler under judgment: how to start it, the kind of template that it serves, and the pace
//! at which it works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use super::definitions::Definitions;
use super::management::Management;
use super::reader::Reader;

/// A reconciler under judgment.
#[derive(Clone)]
pub struct Subject {
    /// Starts the reconciler.
    pub reconciler: Arc<dyn Reconciler>,
    /// Reader of groups under judgment; `None` if only the reconciler is.
    pub reader: Option<Arc<dyn Reader>>,
    /// Kind of the templates.
    pub kind: TemplateKind,
    /// True if the reconciler serves the two kinds of vSphere, for which checks have more samples.
    pub is_vsphere: bool,
    /// Times that checks wait.
    pub pace: Pace,
}

/// Times that checks wait.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time within which the reconciler must react.
    pub within: Duration,
    /// Time for which a check looks whether nothing happens.
    pub quiet: Duration,
    /// Time for which a check holds up a write of the reconciler.
    pub hold: Duration,
    /// Time between two looks.
    pub look: Duration,
}

impl Pace {
    /// Pace in virtual time, where waiting costs little.
    pub const VIRTUAL: Self = Self {
        within: Duration::from_secs(30),
        quiet: Duration::from_secs(120),
        hold: Duration::from_secs(6),
        look: Duration::from_millis(500),
    };
}

/// API server of the sim on which the reconciler works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The Supervisor, which has the kinds of VM Operator.
    Supervisor,
    /// The workload cluster.
    Cluster,
}

/// Configuration with which a reconciler is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// The usual one.
    Defaults,
    /// Only templates whose label `cluster.x-k8s.io/watch-filter` has this value count.
    WatchFilter(String),
    /// Each vGPU with one of these profiles provides one of this resource.
    Gpus {
        /// Profiles.
        profiles: Vec<String>,
        /// Resource, such as `nvidia.com/gpu`.
        resource: String,
    },
}

/// Reason why a reconciler did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotStarted {
    /// It has no way to get this configuration.
    #[error("{0}")]
    NotSupported(String),
    /// The start failed.
    #[error("the reconciler does not start: {0}")]
    Failed(String),
}

/// Starts a reconciler.
pub trait Reconciler: Send + Sync {
    /// Starts the reconciler on a management cluster.
    fn start<'a>(
        &'a self,
        management: &'a Management,
        configuration: &'a Configuration,
    ) -> BoxFuture<'a, Result<Box<dyn Running>, NotStarted>>;
}

/// A reconciler that runs. Dropping it kills the reconciler.
pub trait Running: Send {
    /// Stops the reconciler in order, and returns when it has ended.
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// Returns how the reconciler ended by itself; `None` while it runs.
    fn end(&mut self) -> Option<String>;
}

/// Kind of the templates that a reconciler serves, and samples of it.
#[derive(Clone, Debug)]
pub struct TemplateKind {
    /// Server on which the kind is installed.
    pub server: Server,
    /// Definitions of the kinds to install.
    pub definitions: Definitions,
    /// API group and version of the templates, in the version that the store keeps.
    pub api_version: String,
    /// Kind of the templates.
    pub kind: String,
    /// Samples; at least one.
    pub samples: Vec<Sample>,
    /// A change after which the first sample has another status; `None` if there is none.
    pub change: Option<Change>,
}

/// A template with what it needs and what its status must be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Sample {
    /// Objects to create first; with them the capacity is known, and without them it is not.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// `spec` of the template.
    pub spec: Value,
    /// Status that the reconciler must publish.
    pub status: Expected,
}

/// A change of the inputs of the first sample.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Change {
    /// Merge patch of the `spec` of the template.
    pub spec: Option<Value>,
    /// Merge patch of one object, with its apiVersion, kind and name.
    pub object: Option<Value>,
    /// Status after the change.
    pub status: Expected,
}

/// The part of a status that a reconciler publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expected {
    /// Amounts of resources; empty for no `capacity`.
    #[serde(default)]
    pub capacity: BTreeMap<String, String>,
    /// Content of `nodeInfo`; empty for no `nodeInfo`.
    #[serde(default)]
    pub node_info: BTreeMap<String, String>,
}

impl Expected {
    /// Builds the status from pairs.
    pub fn new(capacity: &[(&str, &str)], node_info: &[(&str, &str)]) -> Self {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        Self { capacity: pairs(capacity), node_info: pairs(node_info) }
    }
}
