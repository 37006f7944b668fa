//! Requests for VirtualMachines, and the meaning of their failures.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{
    machine::{MachineName, MachineObject, MissingName},
    view::listing::Listing,
};
use crate::{
    cluster::{Cluster, ClusterError, Pauses, WatchEvents, encode},
    mutant::{Active, mutant},
    supervisor::VmOperatorVersion,
    telemetry::RequestCounter,
};

/// Maximum number of requests per second to the Supervisor after a burst of [`BURST`]: the default
/// of client-go, which upstream keeps.
const QPS: f64 = 5.0;
/// Maximum number of requests to the Supervisor in a burst: the default of client-go.
const BURST: u32 = 10;
/// Objects per page of a list; one object has about ten kilobytes.
const PAGE: u32 = 500;
/// Maximum number of times that a list starts again because its pages expire while it is read.
const MAX_RESTARTS: u32 = 3;

/// Meaning of a failed request for the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The server forbids the request (403).
    Forbidden,
    /// The requested resource version is too old (410).
    Expired,
    /// The server does not serve the resource (404): it has other API versions, or is not a
    /// Supervisor.
    NotServed,
    /// The server asks the client to wait for this time (429 or 503); 1 s for a 429 that names no
    /// time.
    Throttled(Duration),
    /// Any other failure; it may pass.
    Transient,
}

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The server did not answer the request, or refused it.
    #[error(transparent)]
    Request(#[from] ClusterError),
    /// The answer is not a complete list, repeats a page of a list, or is not the requested
    /// machine.
    #[error("{path} was answered with {what}")]
    Answer { path: String, what: &'static str },
    /// The answer is a list that is older than the view.
    #[error("the list of VirtualMachines is older than one that the provider has read before")]
    Old,
}

impl ApiError {
    /// Returns the meaning of the failure. No other code decides this.
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

/// Client for the VirtualMachines of one namespace.
pub(super) struct Api {
    cluster: Cluster,
    path: String,
    active: Active,
}

/// Paging of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paging {
    /// The client requests the list in pages of [`PAGE`] objects.
    Pages,
    /// The client requests the list in one answer, as upstream does.
    AllAtOnce,
}

impl Api {
    /// Creates a client that returns a throttled request as an error.
    pub(super) fn new(
        client: kube::Client,
        namespace: &str,
        version: VmOperatorVersion,
        counter: RequestCounter,
        active: Active,
    ) -> Self {
        let cluster = Cluster::new(client, QPS, BURST).without_retries();
        Self { active, ..Self::over(cluster, namespace, version, counter) }
    }

    /// Creates a client that repeats a throttled request when the server allows it, as client-go
    /// does. Unlike with client-go, other requests for that path wait equally long.
    pub(super) fn patient(
        client: kube::Client,
        namespace: &str,
        version: VmOperatorVersion,
        counter: RequestCounter,
    ) -> Self {
        let cluster = Cluster::new(client, QPS, BURST).with_pauses(&Pauses::default());
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
        Self { cluster: cluster.with_counter(counter), path, active: Active::default() }
    }

    /// Reads one machine; `None` if the namespace has no machine of that name.
    ///
    /// A 404 that is not about this object is an error, because a server that does not serve the
    /// resource also answers 404.
    pub(super) async fn get(&self, name: &MachineName) -> Result<Option<MachineObject>, ApiError> {
        let path = format!("{}/{}", self.path, encode(name.as_str()));
        match self.cluster.get(&path).await {
            Ok(value) => match MachineObject::from_json(&value) {
                Ok(machine) if machine.name == *name => Ok(Some(machine)),
                Ok(_) | Err(MissingName) => Err(ApiError::Answer {
                    path,
                    what: "an object that is not the requested VirtualMachine",
                }),
            },
            Err(err) if err.says_gone(name.as_str()) => Ok(None),
            Err(err) if mutant!(self.active, CollectionNotFoundIsGone) && err.is_not_found() => {
                Ok(None)
            }
            Err(err) => Err(err.into()),
        }
    }

    /// Lists all machines. The request names no resource version, so the answer is current and
    /// consistent. If a page expires, starts again, up to [`MAX_RESTARTS`] times.
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

    /// Reads all pages of one list.
    async fn list_once(&self, paging: Paging) -> Result<Listing, ApiError> {
        let began_at = Instant::now();
        let (mut machines, mut n_unreadable) = (Vec::new(), 0);
        let mut token: Option<String> = None;
        loop {
            let path = match (paging, &token) {
                (Paging::AllAtOnce, _) => self.path.clone(),
                (Paging::Pages, None) => format!("{}?limit={PAGE}", self.path),
                (Paging::Pages, Some(token)) => {
                    format!("{}?limit={PAGE}&continue={}", self.path, encode(token))
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
                return Err(ApiError::Answer { path, what: "an object that is not a list" });
            };
            for item in items {
                match MachineObject::from_json(item) {
                    Ok(machine) => machines.push(machine),
                    Err(MissingName) => n_unreadable += 1,
                }
            }
            let text = |key: &str| {
                let text = page.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
                text.filter(|text| !text.is_empty()).map(str::to_owned)
            };
            let next = text("continue");
            if next.is_none() {
                let version = text("resourceVersion").unwrap_or_default();
                return Ok(Listing::new(began_at, version, machines, n_unreadable));
            }
            if next == token {
                return Err(ApiError::Answer { path, what: "the same page of a list again" });
            }
            token = next;
            if paging == Paging::AllAtOnce {
                return Err(ApiError::Answer { path, what: "only a part of a list" });
            }
        }
    }

    /// Opens a watch from a resource version on. The server ends it after `lasting`.
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
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::Method;

    use super::*;
    use crate::cluster::ErrorDetails;

    fn status(code: u16, reason: &str, message: &str, about: Option<&str>) -> ClusterError {
        ClusterError::Status {
            method: Method::GET,
            path: "/x".to_owned(),
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            hints: Box::new(ErrorDetails { about: about.map(str::to_owned), retry_after: None }),
        }
    }

    #[test]
    fn a_404_means_that_a_machine_is_gone_only_if_it_names_the_machine() {
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

    #[tokio::test(start_paused = true)]
    async fn a_list_of_machines_whose_continue_token_comes_back_is_an_error() {
        let n = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&n);
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let n = counted.fetch_add(1, Ordering::Relaxed);
            assert!(n < 10, "the client requests pages without end");
            let page = serde_json::json!({"metadata": {"continue": "a"}, "items": []}).to_string();
            let page = http_body_util::Full::new(bytes::Bytes::from(page));
            async move { Ok::<_, Infallible>(http::Response::new(page)) }
        });
        let cluster = Cluster::new(kube::Client::new(service, "dev"), -1.0, 0);
        let api = Api { cluster, path: "/vms".to_owned(), active: Active::default() };
        let listed = api.list(Paging::Pages).await.err();
        assert!(matches!(listed, Some(ApiError::Answer { .. })), "{listed:?}");
        assert_eq!(n.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_status_and_retry_after_decide_what_a_failure_means() {
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
