//! Data types for sequences of requests.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Subject of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clause {
    /// Built-in kinds: defaults, validation, immutable fields, status.
    Resources,
    /// CustomResourceDefinitions and their objects.
    CustomResources,
    /// Discovery, OpenAPI, versions, and encodings of bodies.
    Discovery,
    /// get, list, watch, selectors.
    Reading,
    /// create, update, patch, delete, and their preconditions.
    Writing,
    /// Access control.
    Access,
}

/// Requests in order, on a server where the namespace `$id` has just been created.
///
/// In paths, headers and bodies `$id` stands for that namespace, `$ns` for `/api/v1/namespaces/$id`, `$leases` for the leases in
/// it, `$block` for 64 KiB of letters, and `$NAME` for the value that an earlier step saved as NAME. Objects without a namespace
/// have `$id` in their names, so that sequences do not collide on one server. Times in a sequence are before 2021; later times
/// are the server's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sequence {
    /// Name, unique among all sequences.
    pub name: String,
    /// Subject of the sequence.
    pub clause: Clause,
    /// True to compare `metadata.managedFields`. Other sequences leave it out, because it repeats every field of a request and a
    /// difference in it would hide others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub managed_fields: bool,
    /// Requests, in order.
    pub steps: Vec<Step>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(it: &bool) -> bool {
    !*it
}

/// A request, a read of a watch that an earlier step opened, or a compaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Step {
    /// Method and path with query, like `GET $ns/configmaps?limit=1`.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// User of the request: `admin` (the default), `alice`, `bob`, `stranger` (an unknown token) or `nobody` (no token).
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `Accept` header (default: JSON).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// `Content-Type` of the body (default: JSON). `json-patch`, `merge` and `strategic` are short for the media types of
    /// patches.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Further headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body, sent as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The body, sent unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The body in base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Names for values of the answer: `rv: metadata.resourceVersion`, `tag: header etag`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, String>,
    /// Parts of the answer to compare, if the rest depends on other content of the server: `groups[name=apps].versions`,
    /// `resources[*].name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pick: Vec<String>,
    /// Repeats the request for some seconds until it has this status: a real server learns of new roles and kinds from a watch of
    /// its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u16>,
    /// Keeps the answer open as a watch with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Reads events of the watch with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Number of events to read.
    #[serde(skip_serializing_if = "is_zero")]
    pub events: usize,
    /// Makes the server forget all states before the present one, as a real server asks etcd to every few minutes.
    #[serde(skip_serializing_if = "is_false")]
    pub compact: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(it: &usize) -> bool {
    *it == 0
}

impl Sequence {
    /// Checks that the sequence can be played.
    ///
    /// # Errors
    /// Returns a sentence that names the step and the remedy.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.steps.is_empty(), "{}: give it at least one step", self.name);
        for (n, step) in self.steps.iter().enumerate() {
            let at = format!("{}, step {}", self.name, n + 1);
            let acts = [step.request.is_some(), step.read.is_some(), step.compact];
            ensure!(
                acts.iter().filter(|it| **it).count() == 1,
                "{at}: write one of `do` (a request), `read` (a watch) and `compact`"
            );
            ensure!(
                step.read.is_none() || step.events > 0,
                "{at}: say with `events` how many events are expected"
            );
            let bodies = [step.body.is_some(), step.raw.is_some(), step.base64.is_some()];
            ensure!(
                bodies.iter().filter(|it| **it).count() < 2,
                "{at}: keep one of `body`, `raw` and `base64`"
            );
            if let Some(request) = &step.request {
                ensure!(
                    request.split_once(' ').is_some_and(|(_, path)| path.starts_with(['/', '$'])),
                    "{at}: `do` is a method, a space and a path, not {request:?}"
                );
            }
            if let Some(watch) = &step.read {
                ensure!(
                    self.steps[..n].iter().any(|it| it.watch.as_ref() == Some(watch)),
                    "{at}: no earlier step has `watch: {watch}`"
                );
            }
        }
        Ok(())
    }
}
