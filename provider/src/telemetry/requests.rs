//! Counts requests to Kubernetes API servers, in a metric with the name that it has in
//! `k8s.io/component-base: metrics/prometheus/restclient`.
//!
//! The label `server` replaces client-go's `host`: its value is `cluster` or `supervisor`, not an
//! address.

use std::sync::atomic::AtomicU64;

use http::Method;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// The code that client-go counts for a request without an answer.
const NO_ANSWER: &str = "<error>";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    server: &'static str,
    method: String,
    code: String,
}

type Requests = Family<RequestLabels, Counter<u64, AtomicU64>>;

/// The metric family for the requests to all API servers.
#[derive(Debug, Default)]
pub(super) struct RequestFamily(Requests);

impl RequestFamily {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "Requests to Kubernetes API servers, by method and status of the answer",
            self.0.clone(),
        );
    }

    /// Returns the counter of requests to one server.
    pub(super) fn counter(&self, server: &'static str) -> RequestCounter {
        RequestCounter { server, requests: self.0.clone() }
    }
}

/// Counts the requests to one API server.
#[derive(Clone, Debug)]
pub(crate) struct RequestCounter {
    server: &'static str,
    requests: Requests,
}

impl RequestCounter {
    /// Counts a request that ended with this status, or without an answer (`None`).
    pub(crate) fn ended(&self, method: &Method, status: Option<u16>) {
        let code = status.map_or_else(|| NO_ANSWER.to_owned(), |status| status.to_string());
        let labels = RequestLabels { server: self.server, method: method.to_string(), code };
        self.requests.get_or_create(&labels).inc();
    }
}
