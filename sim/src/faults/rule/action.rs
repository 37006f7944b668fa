//! What happens to a call on which a rule fires.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Denial, KubeStatus, Spoil, Throttle};
use crate::faults::MissingPaths;

/// What happens to a call. The first that replaces the answer ends the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Wait first.
    Delay(#[serde(with = "sim_world::duration")] Duration),
    /// Answer with a vim25 fault.
    SoapFault {
        /// The class.
        #[serde(rename = "type")]
        class: String,
        /// The text; a typical one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Answer with an HTTP status, worded as the face would: a Kubernetes `Status`, a vAPI error, a
    /// proxy's page in front of `/sdk`.
    Status {
        /// The HTTP status code.
        code: u16,
        /// `Retry-After` in seconds.
        #[serde(default, rename = "retryAfter", skip_serializing_if = "Option::is_none")]
        retry_after: Option<u32>,
        /// The text; a typical one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Break the connection before an answer.
    Reset,
    /// Never answer.
    Blackhole,
    /// Send so many bytes of the answer's body, then break the connection.
    Truncate {
        /// Bytes of the body.
        bytes: u64,
    },
    /// Spoil the bytes of the answer's body: members and types that nobody knows, bytes that are no text, too deep, too long.
    Spoil(Spoil),
    /// Answer as if nothing matched.
    EmptyResult,
    /// Leave this object out, by name or managed object id.
    Hide(String),
    /// Properties that cannot be read.
    MissingSet(MissingPaths),
    /// The collector version is unknown; the collector starts over.
    #[serde(rename = "updates.versionReset")]
    VersionReset,
    /// A watch answers with an ERROR event, code 410.
    #[serde(rename = "watch.gone410")]
    WatchGone,
    /// A watch answers with an ERROR event, code 410, after so many events.
    #[serde(rename = "watch.gone410After")]
    WatchGoneAfter(u64),
    /// A watch stays open and says nothing until its time is over.
    #[serde(rename = "watch.silent")]
    WatchSilent,
    /// A watch sends no bookmarks.
    #[serde(rename = "watch.noBookmark")]
    WatchNoBookmark,
    /// A watch ends after so many events.
    #[serde(rename = "watch.closeAfter")]
    WatchCloseAfter(u64),
    /// A watch tells so many events, then nothing more, and never ends: a connection whose other end
    /// is gone without a word.
    #[serde(rename = "watch.holdAfter")]
    WatchHoldAfter(u64),
    /// A watch tells everything twice.
    #[serde(rename = "watch.duplicate")]
    WatchDuplicate,
    /// A watch tells what happens this long after it happened; no bookmark overtakes it.
    #[serde(rename = "watch.delay")]
    WatchDelay(#[serde(with = "sim_world::duration")] Duration),
    /// A watch ends cleanly after this long, whatever time it asked for.
    #[serde(rename = "watch.lasts")]
    WatchLasts(#[serde(with = "sim_world::duration")] Duration),
    /// A list, or what a watch begins with, has only the first so many objects, and says that it is whole.
    #[serde(rename = "list.partial")]
    ListPartial(usize),
    /// Reads that are content with any state (`resourceVersion=0`) get that before the last so many
    /// changes of the resource.
    #[serde(rename = "list.stale")]
    ListStale(usize),
    /// Reads show the state before the last so many changes, as through a cache that lags.
    ///
    /// Of a vCenter: inventory and tags, in `Find…`, `Retrieve…`, `Fetch` and reads of tags. Changes at the same moment
    /// count as one, and nothing before the moment at which the rule was added is known. Waits for updates, sessions
    /// and tasks are as ever: the property collector tells changes in order, and late ones are `delay`.
    ///
    /// Of a Kubernetes API: gets and lists, of the changes of the resource. Unlike with `list.stale` reads that must
    /// be consistent too: no API server does that, a cache between client and server may.
    #[serde(rename = "read.stale")]
    ReadStale(usize),
    /// The token of a list that goes on is too old: 410.
    #[serde(rename = "list.continueExpired")]
    ListContinueExpired,
    /// The conversion webhook does not answer: versions of its kinds that are not the stored one cannot be
    /// read, watched or written. Other versions and other kinds are served as ever.
    #[serde(rename = "webhook.conversionDown")]
    ConversionDown,
    /// An admission webhook denies the request.
    #[serde(rename = "webhook.deny")]
    Deny(Denial),
    /// An admission webhook does not answer.
    #[serde(rename = "webhook.unreachable")]
    WebhookUnreachable,
    /// Answer with a Kubernetes `Status` in these words.
    #[serde(rename = "k8sStatus")]
    KubeStatus(KubeStatus),
    /// Priority and fairness turns the request away: 429 as a page, with `Retry-After` and the headers that
    /// name flow schema and priority level.
    #[serde(rename = "throttle")]
    Throttle(Throttle),
    /// There is no such resource, as before its definition is there or in a version that is not served.
    #[serde(rename = "notServed")]
    NotServed,
    /// The namespace is on its way out and takes nothing new.
    #[serde(rename = "namespaceTerminating")]
    NamespaceTerminating,
    /// Before the call is served, the cluster forgets all but the last so many changes of every
    /// resource, as after a compaction of etcd.
    #[serde(rename = "cluster.compact")]
    Compact(usize),
}

impl Action {
    /// What makes sense for an API server only, by its name in a rule.
    pub(super) fn of_cluster(&self) -> Option<&'static str> {
        Some(match self {
            Self::WatchGone => "watch.gone410",
            Self::WatchGoneAfter(_) => "watch.gone410After",
            Self::WatchSilent => "watch.silent",
            Self::WatchNoBookmark => "watch.noBookmark",
            Self::WatchCloseAfter(_) => "watch.closeAfter",
            Self::WatchHoldAfter(_) => "watch.holdAfter",
            Self::WatchDuplicate => "watch.duplicate",
            Self::WatchDelay(_) => "watch.delay",
            Self::WatchLasts(_) => "watch.lasts",
            Self::ListPartial(_) => "list.partial",
            Self::ListStale(_) => "list.stale",
            Self::ListContinueExpired => "list.continueExpired",
            Self::ConversionDown => "webhook.conversionDown",
            Self::Deny(_) => "webhook.deny",
            Self::WebhookUnreachable => "webhook.unreachable",
            Self::KubeStatus(_) => "k8sStatus",
            Self::Throttle(_) => "throttle",
            Self::NotServed => "notServed",
            Self::NamespaceTerminating => "namespaceTerminating",
            Self::Delay(_)
            | Self::SoapFault { .. }
            | Self::Status { .. }
            | Self::Reset
            | Self::Blackhole
            | Self::Truncate { .. }
            | Self::Spoil(_)
            | Self::EmptyResult
            | Self::Hide(_)
            | Self::MissingSet(_)
            | Self::VersionReset
            | Self::ReadStale(_)
            | Self::Compact(_) => return None,
        })
    }
}
