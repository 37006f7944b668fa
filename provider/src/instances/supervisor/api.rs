//! The requests about VirtualMachines, and what their failures mean.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{
    listing::Listing,
    machine::{MachineObject, Nameless},
};
use crate::{
    cluster::{Cluster, ClusterError, WatchEvents, encode},
    mutant::{Active, mutant},
    supervisor::VmOperatorVersion,
    telemetry::RequestCounter,
};

/// Requests per second to the Supervisor, and how many at once: what client-go allows by default and upstream leaves so.
const QPS: f64 = 5.0;
const BURST: u32 = 10;
/// Objects on a page. One has about ten kilobytes.
const PAGE: u32 = 500;
/// A list whose pages grow too old while it is read is begun again this often.
const MAX_RESTARTS: u32 = 3;

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// We may not do this.
    Forbidden,
    /// The version that was asked for is not there any more.
    Expired,
    /// The Supervisor has no such resource: another version, or another server.
    NotServed,
    /// It asks to be left alone for so long.
    Throttled(Duration),
    /// Anything else; it may be better later.
    Transient,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// It was not answered, or refused.
    #[error(transparent)]
    Request(#[from] ClusterError),
    /// It was answered with something that is no list, or no machine.
    #[error("{path} was answered with {what}")]
    Answer { path: String, what: &'static str },
    /// It is a list, and tells of before what is known.
    #[error("the list of machines tells of before what is known")]
    Old,
}

impl ApiError {
    /// The only place that decides what a failure means.
    pub(super) fn meaning(&self) -> Meaning {
        let Self::Request(ClusterError::Status { code, hints, .. }) = self else {
            return Meaning::Transient;
        };
        match (code, &hints.retry_after) {
            (403, _) => Meaning::Forbidden,
            (404, _) => Meaning::NotServed,
            (410, _) => Meaning::Expired,
            (429 | 503, Some(wait)) => Meaning::Throttled(*wait),
            (429, None) => Meaning::Throttled(Duration::from_secs(1)),
            _ => Meaning::Transient,
        }
    }
}

/// The VirtualMachines of a namespace.
pub(super) struct Api {
    cluster: Cluster,
    path: String,
    active: Active,
}

/// Whether a list comes in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paging {
    /// As many at a time as is good for both sides.
    Pages,
    /// All at once, as upstream asks.
    AllAtOnce,
}

impl Api {
    pub(super) fn new(
        client: kube::Client,
        namespace: &str,
        version: VmOperatorVersion,
        counter: RequestCounter,
        active: Active,
    ) -> Self {
        let cluster = Cluster::new(client, QPS, BURST).impatient();
        Self { active, ..Self::over(cluster, namespace, version, counter) }
    }

    /// The same, and a throttled request is sent again when the server allows it, as client-go does. Other requests of its path
    /// wait as long, which client-go leaves out.
    pub(super) fn patient(
        client: kube::Client,
        namespace: &str,
        version: VmOperatorVersion,
        counter: RequestCounter,
    ) -> Self {
        let cluster = Cluster::new(client, QPS, BURST).sharing_pauses();
        Self::over(cluster, namespace, version, counter)
    }

    fn over(
        cluster: Cluster,
        namespace: &str,
        version: VmOperatorVersion,
        counter: RequestCounter,
    ) -> Self {
        let path =
            format!("/apis/vmoperator.vmware.com/{version}/namespaces/{namespace}/virtualmachines");
        Self { cluster: cluster.counted(counter), path, active: Active::default() }
    }

    /// One machine; `None` when the namespace has none of that name.
    ///
    /// A 404 that is not about this object is an error: it is what a server says that does not know the resource.
    pub(super) async fn get(&self, name: &str) -> Result<Option<MachineObject>, ApiError> {
        let path = format!("{}/{}", self.path, encode(name));
        match self.cluster.get(&path).await {
            Ok(value) => match MachineObject::from_json(&value) {
                Ok(machine) if machine.name == name => Ok(Some(machine)),
                Ok(_) | Err(Nameless) => {
                    Err(ApiError::Answer { path, what: "something that is not this machine" })
                }
            },
            Err(err) if err.says_gone(name) => Ok(None),
            Err(err) if mutant!(self.active, CollectionNotFoundIsGone) && err.is_not_found() => {
                Ok(None)
            }
            Err(err) => Err(err.into()),
        }
    }

    /// All machines, consistently: no version is asked for, so the answer is of now.
    pub(super) async fn list(&self, paging: Paging) -> Result<Listing, ApiError> {
        let mut restarts = 0;
        loop {
            match self.list_once(paging).await {
                Err(err) if err.meaning() == Meaning::Expired && restarts < MAX_RESTARTS => {
                    restarts += 1;
                }
                other => return other,
            }
        }
    }

    async fn list_once(&self, paging: Paging) -> Result<Listing, ApiError> {
        let began_at = Instant::now();
        let (mut machines, mut n_unreadable) = (Vec::new(), 0);
        let mut token = String::new();
        loop {
            let path = match paging {
                Paging::AllAtOnce => self.path.clone(),
                Paging::Pages if token.is_empty() => format!("{}?limit={PAGE}", self.path),
                Paging::Pages => {
                    format!("{}?limit={PAGE}&continue={}", self.path, encode(&token))
                }
            };
            let page = match self.cluster.get(&path).await {
                Err(err)
                    if mutant!(self.active, CollectionNotFoundIsGone) && err.is_not_found() =>
                {
                    serde_json::json!({ "items": [] })
                }
                other => other?,
            };
            let Some(items) = page.get("items").and_then(Value::as_array) else {
                return Err(ApiError::Answer { path, what: "something that is no list" });
            };
            for item in items {
                match MachineObject::from_json(item) {
                    Ok(machine) => machines.push(machine),
                    Err(Nameless) => n_unreadable += 1,
                }
            }
            let text = |key: &str| {
                let text = page.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            token = text("continue");
            if token.is_empty() {
                return Ok(Listing::new(began_at, text("resourceVersion"), machines, n_unreadable));
            }
            if paging == Paging::AllAtOnce {
                return Err(ApiError::Answer { path, what: "a part of a list" });
            }
        }
    }

    /// Opens a watch that the server ends after a while.
    pub(super) async fn watch(
        &self,
        version: &str,
        lasting: Duration,
    ) -> Result<WatchEvents, ApiError> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
            self.path,
            encode(version),
            lasting.as_secs()
        );
        let body = self.cluster.open(&path).await?;
        Ok(WatchEvents::new(path, body))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::cluster::Hints;

    fn status(code: u16, reason: &str, message: &str, about: Option<&str>) -> ClusterError {
        ClusterError::Status {
            method: Method::GET,
            path: "/x".to_owned(),
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            hints: Box::new(Hints { about: about.map(str::to_owned), retry_after: None }),
        }
    }

    #[test]
    fn only_a_404_about_the_machine_says_that_it_does_not_exist() {
        let absent = "virtualmachines.vmoperator.vmware.com \"n9\" not found";
        for (name, err, want) in [
            ("the object", status(404, "NotFound", absent, Some("n9")), true),
            ("the object, without details", status(404, "NotFound", absent, None), true),
            (
                "another object",
                status(404, "NotFound", "namespaces \"dev\" not found", Some("dev")),
                false,
            ),
            (
                "the resource",
                status(404, "NotFound", "the server could not find the requested resource", None),
                false,
            ),
            ("no Status at all", status(404, "", "", None), false),
            ("gone", status(410, "Gone", absent, Some("n9")), false),
            ("forbidden", status(403, "Forbidden", absent, Some("n9")), false),
        ] {
            assert_eq!(err.says_gone("n9"), want, "{name}");
        }
    }

    #[test]
    fn failures_mean_what_the_server_says() {
        let after = |code, seconds| {
            let mut err = status(code, "", "", None);
            if let ClusterError::Status { hints, .. } = &mut err {
                hints.retry_after = Some(Duration::from_secs(seconds));
            }
            err
        };
        for (err, want) in [
            (status(401, "", "", None), Meaning::Transient),
            (status(403, "", "", None), Meaning::Forbidden),
            (status(404, "", "", None), Meaning::NotServed),
            (status(410, "", "", None), Meaning::Expired),
            (status(429, "", "", None), Meaning::Throttled(Duration::from_secs(1))),
            (after(429, 7), Meaning::Throttled(Duration::from_secs(7))),
            (after(503, 7), Meaning::Throttled(Duration::from_secs(7))),
            (status(503, "", "", None), Meaning::Transient),
            (status(500, "", "", None), Meaning::Transient),
        ] {
            let text = err.to_string();
            assert_eq!(ApiError::from(err).meaning(), want, "{text}");
        }
    }
}
