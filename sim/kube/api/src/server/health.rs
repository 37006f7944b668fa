//! `/healthz`, `/livez`, `/readyz`. Every check passes, because a sim that answers is healthy.
//!
//! The checks have the real server's names, so that clients can request them by name.
//! After `apiserver: pkg/server/healthz/healthz.go`.

use http::StatusCode;

use crate::answer::{self, Reply};
use crate::request::Request;

const FIRST: [&str; 4] = ["ping", "log", "loopback-serving-certificate", "etcd"];
const READY: [&str; 5] = ["ping", "log", "etcd", "etcd-readiness", "informer-sync"];
const HOOKS: [&str; 30] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Answers `/healthz`, `/livez` or `/readyz`, or one check below them, such as `/livez/ping`; a 404
/// page for an unknown check. The answer lists the checks if the request has the parameter
/// `verbose`.
pub(crate) fn answer(path: &str, request: &Request) -> Reply {
    let (door, check) =
        path.trim_matches('/').split_once('/').unwrap_or((path.trim_matches('/'), ""));
    let checks = checks(door);
    if !check.is_empty() {
        let is_known = checks.contains(&check);
        // In the real server another handler answers a single check, without `nosniff`.
        let fine = || answer::text(StatusCode::OK, "ok");
        return if is_known { fine() } else { answer::page_not_found() };
    }
    if !request.query.has("verbose") {
        return plain("ok".into());
    }
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    let mut text = String::new();
    for check in &checks {
        let outcome = if excluded.contains(check) { "excluded: ok" } else { "ok" };
        text.push_str(&format!("[+]{check} {outcome}\n"));
    }
    let unknown: Vec<String> =
        excluded.iter().filter(|it| !checks.contains(it)).map(|it| format!("{it:?}")).collect();
    if !unknown.is_empty() {
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(",")
        ));
    }
    text.push_str(&format!("{door} check passed\n"));
    plain(text)
}

fn checks(door: &str) -> Vec<&'static str> {
    let first: &[&str] = if door == "readyz" { &READY } else { &FIRST };
    let last: &[&str] = if door == "readyz" { &["shutdown"] } else { &[] };
    first.iter().chain(&HOOKS).chain(last).copied().collect()
}

fn plain(text: String) -> Reply {
    answer::unsniffed(answer::text(StatusCode::OK, text))
}
