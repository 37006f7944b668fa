//! Actions on a call for which a rule fires.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Denial, KubeStatus, Spoil, Throttle};
use crate::faults::MissingPaths;

/// An action on a call. The first action that replaces the answer ends the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Waits first.
    Delay(#[serde(with = "sim_world::duration")] Duration),
    /// Answers with a vim25 fault.
    SoapFault {
        /// Class of the fault.
        #[serde(rename = "type")]
        class: String,
        /// Text of the fault; a typical one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Answers with an HTTP status in the format of the face: a Kubernetes `Status`, a vAPI error,
    /// a proxy's page in front of `/sdk`.
    Status {
        /// HTTP status code.
        code: u16,
        /// `Retry-After` in seconds.
        #[serde(default, rename = "retryAfter", skip_serializing_if = "Option::is_none")]
        retry_after: Option<u32>,
        /// Text of the answer; a typical one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Breaks the connection before an answer.
    Reset,
    /// Never answers.
    Blackhole,
    /// Sends this many bytes of the answer's body, then breaks the connection.
    Truncate {
        /// Bytes of the body.
        bytes: u64,
    },
    /// Spoils the bytes of the answer's body: unknown members and types, bytes that are not text, too deep, too long.
    Spoil(Spoil),
    /// Answers as if nothing matched.
    EmptyResult,
    /// Leaves this object out, by name or managed object id.
    Hide(String),
    /// Reports properties as unreadable.
    MissingSet(MissingPaths),
    /// Treats the collector version as unknown, so that the collector starts over.
    #[serde(rename = "updates.versionReset")]
    VersionReset,
    /// Ends a watch at once with an ERROR event, code 410.
    #[serde(rename = "watch.gone410")]
    WatchGone,
    /// Ends a watch with an ERROR event, code 410, after this many events.
    #[serde(rename = "watch.gone410After")]
    WatchGoneAfter(u64),
    /// Keeps a watch open without any event until its time is over.
    #[serde(rename = "watch.silent")]
    WatchSilent,
    /// Sends no bookmarks on a watch.
    #[serde(rename = "watch.noBookmark")]
    WatchNoBookmark,
    /// Ends a watch after this many events.
    #[serde(rename = "watch.closeAfter")]
    WatchCloseAfter(u64),
    /// Sends this many events on a watch, then nothing more, and never ends it, like a connection whose other end has vanished.
    #[serde(rename = "watch.holdAfter")]
    WatchHoldAfter(u64),
    /// Sends everything on a watch twice.
    #[serde(rename = "watch.duplicate")]
    WatchDuplicate,
    /// Sends each event of a watch this long after it happened; no bookmark overtakes it.
    #[serde(rename = "watch.delay")]
    WatchDelay(#[serde(with = "sim_world::duration")] Duration),
    /// Ends a watch cleanly after this long, whatever timeout it asked for.
    #[serde(rename = "watch.lasts")]
    WatchLasts(#[serde(with = "sim_world::duration")] Duration),
    /// Returns only the first n objects of a list, or of the initial state of a watch, as if they were all.
    #[serde(rename = "list.partial")]
    ListPartial(usize),
    /// Answers reads that accept any state (`resourceVersion=0`) with the state before the last n
    /// changes of the resource.
    #[serde(rename = "list.stale")]
    ListStale(usize),
    /// Answers reads with the state before the last n changes, like a cache that lags.
    ///
    /// For a vCenter the action covers inventory and tags, in `Find…`, `Retrieve…`, `Fetch` and reads of tags. Changes at the
    /// same moment count as one. The past begins when the rule is added. Waits for updates, sessions and tasks stay current: the
    /// property collector sends changes in order, and `delay` makes them late.
    ///
    /// For a Kubernetes API the action covers gets and lists and counts the changes of the resource. Unlike `list.stale` it also
    /// affects reads that must be consistent: no API server does that, but a cache between client and server may.
    #[serde(rename = "read.stale")]
    ReadStale(usize),
    /// Answers 410 to a list request that continues with a token, as if the token were too old.
    #[serde(rename = "list.continueExpired")]
    ListContinueExpired,
    /// Stops the conversion webhook: other versions of its kinds than the stored one cannot be read, watched or written. The
    /// stored version and other kinds are served as usual.
    #[serde(rename = "webhook.conversionDown")]
    ConversionDown,
    /// Denies the request, as an admission webhook.
    #[serde(rename = "webhook.deny")]
    Deny(Denial),
    /// Fails the request, because an admission webhook does not answer.
    #[serde(rename = "webhook.unreachable")]
    WebhookUnreachable,
    /// Answers with this Kubernetes `Status`.
    #[serde(rename = "k8sStatus")]
    KubeStatus(KubeStatus),
    /// Rejects the request by priority and fairness: 429 as a page, with `Retry-After` and the headers that name flow schema and
    /// priority level.
    #[serde(rename = "throttle")]
    Throttle(Throttle),
    /// Answers that the resource does not exist, as before its definition or in a version that is not served.
    #[serde(rename = "notServed")]
    NotServed,
    /// Rejects new objects, because the namespace is being deleted.
    #[serde(rename = "namespaceTerminating")]
    NamespaceTerminating,
    /// Makes the cluster forget all but the last n changes of every resource before it serves the
    /// call, as after a compaction of etcd.
    #[serde(rename = "cluster.compact")]
    Compact(usize),
}

impl Action {
    /// Name in a rule of an action that only an API server can perform.
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
