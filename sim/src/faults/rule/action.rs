//! What happens to a call on which a rule fires.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// Before the call is served, the cluster forgets all but the last so many changes of every
    /// resource, as after a compaction of etcd.
    #[serde(rename = "cluster.compact")]
    Compact(usize),
}
