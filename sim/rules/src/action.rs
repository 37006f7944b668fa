//! Actions of a rule on the calls for which it fires.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Denial, GrpcStatus, HttpStatus, KubeStatus, MissingPaths, SoapFault, Spoil, Throttle};

/// An action on a call. The first action that replaces, breaks or corrupts the answer is the last
/// one that takes effect: the sim skips the later actions of the rule and all later rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Action {
    /// Waits for this world time before the server handles the call. Several delays add up.
    Delay(#[serde(with = "sim_duration")] Duration),
    /// Answers with a vim25 fault.
    SoapFault(SoapFault),
    /// Answers with an HTTP status in the format of the face: a Kubernetes `Status`, a vAPI error,
    /// or for `/sdk` the page of a proxy.
    Status(HttpStatus),
    /// Breaks the connection before an answer.
    Reset,
    /// Never answers, so that the deadline of the client passes. The connection stays open until the
    /// client disconnects or the server stops.
    Blackhole,
    /// Breaks the call before an answer and leaves the connection open: `RST_STREAM` of HTTP/2. HTTP/1 has
    /// no streams, so there the connection breaks.
    StreamReset,
    /// Announces that the connection ends: with `GOAWAY` in HTTP/2, with `Connection: close` in HTTP/1.
    /// Open calls are still answered. A client in this process without a connection is not affected.
    Goaway,
    /// Answers a call of gRPC with this status, without a message.
    GrpcStatus(GrpcStatus),
    /// Answers a call of gRPC with the status OK and without a message, which the protocol forbids.
    TrailersOnly,
    /// Sends this many bytes of the answer's body, then breaks the connection. A body with fewer
    /// bytes stays complete.
    #[non_exhaustive]
    Truncate {
        /// Number of bytes of the body that the client gets.
        bytes: u64,
    },
    /// Corrupts the body of the answer.
    Spoil(Spoil),
    /// Answers as if no object matched the request.
    EmptyResult,
    /// Hides the object with this name or managed object id from the caller. vAPI compares only the
    /// id.
    Hide(String),
    /// Reports properties of a vCenter's objects as unreadable, in the `missingSet` of the answer.
    MissingSet(MissingPaths),
    /// Rejects the version that the client sends to the property collector, so that the client must
    /// start over.
    #[serde(rename = "updates.versionReset")]
    VersionReset,
    /// Ends a watch at once with an ERROR event, code 410.
    #[serde(rename = "watch.gone410")]
    WatchGone,
    /// Ends a watch with an ERROR event, code 410, after this many events. Bookmarks do not count.
    #[serde(rename = "watch.gone410After")]
    WatchGoneAfter(u64),
    /// Keeps a watch open without any event until its time is over.
    #[serde(rename = "watch.silent")]
    WatchSilent,
    /// Sends no bookmarks on a watch.
    #[serde(rename = "watch.noBookmark")]
    WatchNoBookmark,
    /// Ends a watch after this many events. Bookmarks do not count.
    #[serde(rename = "watch.closeAfter")]
    WatchCloseAfter(u64),
    /// Sends this many events on a watch (bookmarks do not count), then nothing more, but keeps the
    /// watch open even after its timeout, like a connection whose server has vanished.
    #[serde(rename = "watch.holdAfter")]
    WatchHoldAfter(u64),
    /// Sends every event of a watch twice, except bookmarks and errors.
    #[serde(rename = "watch.duplicate")]
    WatchDuplicate,
    /// Sends each event that happens during a watch this long after it happened. While delayed
    /// events wait, the watch sends no bookmarks.
    #[serde(rename = "watch.delay")]
    WatchDelay(#[serde(with = "sim_duration")] Duration),
    /// Ends a watch cleanly after this time, whatever timeout the client requested; at most ten
    /// years.
    #[serde(rename = "watch.lasts")]
    WatchLasts(#[serde(with = "sim_duration")] Duration),
    /// Returns only the first n objects of a list, or of the initial state of a watch, as if they
    /// were all objects.
    #[serde(rename = "list.partial")]
    ListPartial(usize),
    /// Answers gets, lists and the initial state of watches with the state before the last n
    /// changes of the resource, if the request accepts any state (`resourceVersion=0`).
    #[serde(rename = "list.stale")]
    ListStale(usize),
    /// Answers reads with the state before the last n changes, like a cache that lags.
    ///
    /// For a vCenter the action covers inventory and tags, in `Find…`, `RetrieveProperties…`,
    /// `ContinueRetrievePropertiesEx`, `Fetch` and reads of tags. It counts the changes of the
    /// vCenter's inventory and tags; changes at the same moment count as one. The sim knows the
    /// states since the addition of the first such rule, but at most the last 10,000 events of the
    /// world. Sessions, tasks and waits for updates stay current. To make waits late, use `delay`:
    /// the property collector always sends changes in order.
    ///
    /// For a Kubernetes API the action covers gets, lists and the initial state of watches, and
    /// counts the changes of the resource. It does not affect further pages of a list, nor requests
    /// with a `resourceVersion` other than 0. Unlike `list.stale` it affects reads that must be
    /// consistent. An API server never answers these with an old state, but a cache between client
    /// and server may.
    #[serde(rename = "read.stale")]
    ReadStale(usize),
    /// Answers 410 to a request for a further page of a list, as if its token were too old.
    #[serde(rename = "list.continueExpired")]
    ListContinueExpired,
    /// Makes the conversion webhook fail. The API server then serves the kinds of the webhook only
    /// in their stored version. It serves other kinds as usual.
    #[serde(rename = "webhook.conversionDown")]
    ConversionDown,
    /// Denies the request as an admission webhook does.
    #[serde(rename = "webhook.deny")]
    Deny(Denial),
    /// Fails the request, because an admission webhook does not answer.
    #[serde(rename = "webhook.unreachable")]
    WebhookUnreachable,
    /// Answers with this Kubernetes `Status`.
    #[serde(rename = "k8sStatus")]
    KubeStatus(KubeStatus),
    /// Rejects the request as priority and fairness does: 429 as a text page, with `Retry-After`
    /// and the headers that name flow schema and priority level.
    #[serde(rename = "throttle")]
    Throttle(Throttle),
    /// Answers that the resource does not exist, as if its definition or its version were missing.
    #[serde(rename = "notServed")]
    NotServed,
    /// Rejects new objects, because the namespace is being deleted.
    #[serde(rename = "namespaceTerminating")]
    NamespaceTerminating,
    /// Makes the API server forget all but the last n changes of every resource before it serves
    /// the call, as after a compaction of etcd. On a call to a vCenter, the API server of the
    /// workload cluster forgets them.
    #[serde(rename = "cluster.compact")]
    Compact(usize),
}

impl Action {
    /// Answers with this HTTP status, without `Retry-After` and with the default message of the
    /// face. [`HttpStatus`] has both.
    pub const fn status(code: u16) -> Self {
        Self::Status(HttpStatus::new(code))
    }

    /// Answers with a vim25 fault of this class, such as `NotAuthenticated`, and its usual message.
    pub fn soap_fault(class: impl Into<String>) -> Self {
        Self::SoapFault(SoapFault::new(class))
    }

    /// Answers a call of gRPC with this code, such as 14 (`UNAVAILABLE`).
    pub const fn grpc_status(code: u32) -> Self {
        Self::GrpcStatus(GrpcStatus::new(code))
    }

    /// Sends this many bytes of the answer's body, then breaks the connection. A body with fewer
    /// bytes stays complete.
    pub const fn truncate(bytes: u64) -> Self {
        Self::Truncate { bytes }
    }
}

impl From<SoapFault> for Action {
    fn from(fault: SoapFault) -> Self {
        Self::SoapFault(fault)
    }
}

impl From<HttpStatus> for Action {
    fn from(status: HttpStatus) -> Self {
        Self::Status(status)
    }
}
