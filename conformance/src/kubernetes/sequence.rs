//! Data types of sequences: requests in order, as the files in `conformance/kubernetes` contain
//! them.

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

/// Requests in order. Before the first request the player creates a new namespace.
///
/// In paths, headers and bodies `$id` stands for that namespace, `$ns` for its path
/// `/api/v1/namespaces/$id`, `$leases` for the path of the leases in it, `$block` for 64 KiB of
/// letters, and `$NAME` for the value that an earlier step saved as NAME. Names of objects without
/// a namespace must contain `$id`, so that sequences do not collide on one server. Times in a
/// sequence must be before 2021, because the comparison takes later times for those of the server's
/// clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sequence {
    /// Name, unique among all sequences.
    pub name: String,
    /// Subject of the sequence.
    pub clause: Clause,
    /// True to compare `metadata.managedFields`. By default the comparison ignores it, because it
    /// repeats every field of a request, and a difference in it would hide other differences.
    #[serde(default, skip_serializing_if = "is_false")]
    pub managed_fields: bool,
    /// Steps, in order.
    pub steps: Vec<SequenceStep>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(it: &bool) -> bool {
    !*it
}

/// A request, a read of a watch that an earlier step opened, or a compaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SequenceStep {
    /// Method and path with query, such as `GET $ns/configmaps?limit=1`; `None` for a step that
    /// reads a watch or compacts.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// User of the request: `admin` (the default), `alice`, `bob`, `stranger` (an unknown token) or
    /// `nobody` (no token).
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `Accept` header (default: JSON).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// `Content-Type` of the body (default: JSON; Kubernetes' protobuf for `base64`; none without a
    /// body). `json-patch`, `merge` and `strategic` are short for the media types of patches.
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
    /// The body in base64, if it is not text; sent decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Values of the answer that later steps can use, by name: a path in the body, or a header.
    /// Examples: `rv: metadata.resourceVersion`, `tag: header etag`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, String>,
    /// Paths of the parts of the body to compare, if the rest of the body depends on other content
    /// of the server. Examples: `groups[name=apps].versions`, `resources[*].name`. Empty to compare
    /// the whole body. The body of an answer with a status of 400 or more is always compared whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pick: Vec<String>,
    /// Status until which the request is repeated, for up to 25 s. A real server learns of new
    /// roles and kinds through its own watch, so it may reject a request right after their
    /// creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u16>,
    /// Name of the watch that this request opens; its answer stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Name of the watch of which this step reads events, in place of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Number of events that `read` reads.
    #[serde(skip_serializing_if = "is_zero")]
    pub events: usize,
    /// True to make the server forget all revisions before the present one, in place of a request.
    /// A real server lets etcd do this every few minutes.
    #[serde(skip_serializing_if = "is_false")]
    pub compact: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(it: &usize) -> bool {
    *it == 0
}

impl Sequence {
    /// Checks that the sequence can be played.
    ///
    /// # Errors
    /// Fails if the sequence has no step, or if a step is not exactly one of a request, a read and
    /// a compaction, reads no event or a watch that no earlier step opens, has several bodies, or
    /// lacks the method or path of its request. The error names the step and the remedy.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.steps.is_empty(),
            "{}: the sequence has no step; write at least one in `steps`",
            self.name
        );
        for (n, step) in self.steps.iter().enumerate() {
            let at = format!("{}, step {}", self.name, n + 1);
            let acts = [step.request.is_some(), step.read.is_some(), step.compact];
            ensure!(
                acts.iter().filter(|it| **it).count() == 1,
                "{at}: write one of `do` (a request), `read` (a watch) and `compact`"
            );
            ensure!(
                step.read.is_none() || step.events > 0,
                "{at}: write the number of expected events in `events`"
            );
            let bodies = [step.body.is_some(), step.raw.is_some(), step.base64.is_some()];
            ensure!(
                bodies.iter().filter(|it| **it).count() < 2,
                "{at}: keep only one of `body`, `raw` and `base64`"
            );
            if let Some(request) = &step.request {
                ensure!(
                    request.split_once(' ').is_some_and(|(_, path)| path.starts_with(['/', '$'])),
                    "{at}: `do` must be a method, a space and a path, not {request:?}"
                );
            }
            if let Some(watch) = &step.read {
                ensure!(
                    self.steps[..n].iter().any(|it| it.watch.as_ref() == Some(watch)),
                    "{at}: no earlier step has `watch: {watch}`; add it to the step that opens \
                     the watch"
                );
            }
        }
        Ok(())
    }
}
