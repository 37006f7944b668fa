//! The cells of a row, kind by kind.
//!
//! After `kubernetes: pkg/printers/internalversion/printers.go`. Every row has a cell for each
//! column of its kind; the client decides which columns it shows.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::{pods, volumes, workloads};

/// A list at a pointer; empty if the value is not a list.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A text at a pointer; empty if the value is not a text.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn n_entries(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

pub(super) fn age(object: &Value, now: Timestamp) -> String {
    since(&object["metadata"]["creationTimestamp"], now)
}

/// The cells of an object of this resource (`nodes`, `leases.coordination.k8s.io`).
pub(super) fn of(resource: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let elsewhere = workloads::cells(resource, object, now);
    if let Some(cells) = elsewhere.or_else(|| volumes::cells(resource, object, now)) {
        return cells;
    }
    let name = text(object, "/metadata/name");
    let age = || Value::from(age(object, now));
    match resource {
        "nodes" => node(object, now),
        "pods" => pods::cells(object, now),
        "services" => service(object, now),
        "events" | "events.events.k8s.io" => event(object, now),
        "endpoints" => vec![name.into(), endpoints(object).into(), age()],
        "endpointslices.discovery.k8s.io" => vec![
            name.into(),
            text(object, "/addressType").into(),
            slice_ports(object).into(),
            slice_addresses(object).into(),
            age(),
        ],
        "leases.coordination.k8s.io" => {
            vec![name.into(), text(object, "/spec/holderIdentity").into(), age()]
        }
        "configmaps" => {
            let n_data = n_entries(object, "/data") + n_entries(object, "/binaryData");
            vec![name.into(), n_data.into(), age()]
        }
        "secrets" => {
            vec![
                name.into(),
                text(object, "/type").into(),
                n_entries(object, "/data").into(),
                age(),
            ]
        }
        "scales.autoscaling" => {
            let n_replicas = |pointer| object.pointer(pointer).and_then(Value::as_i64);
            vec![
                name.into(),
                n_replicas("/spec/replicas").unwrap_or_default().into(),
                n_replicas("/status/replicas").unwrap_or_default().into(),
                age(),
            ]
        }
        "namespaces" => vec![name.into(), text(object, "/status/phase").into(), age()],
        "serviceaccounts" => vec![name.into(), age()],
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => binding(object, now),
        // Kinds that `columns.json` does not list.
        _ => vec![name.into(), object["metadata"]["creationTimestamp"].clone()],
    }
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(node, "/status/conditions").iter().rfind(|it| it["type"] == "Ready");
    let mut status = match ready.map(|it| it["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let info = |field: &str| node["status"]["nodeInfo"][field].as_str().unwrap_or_default();
    let mut kernel = or(info("kernelVersion"), "<unknown>").to_owned();
    if !info("architecture").is_empty() {
        kernel.push_str(&format!(" ({})", info("architecture")));
    }
    let address = |kind: &str| {
        let found = list(node, "/status/addresses").iter().find(|it| it["type"] == kind);
        found.and_then(|it| it["address"].as_str()).unwrap_or("<none>").to_owned()
    };
    vec![
        text(node, "/metadata/name").into(),
        status.into(),
        roles(node).into(),
        age(node, now).into(),
        info("kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        or(info("osImage"), "<unknown>").into(),
        kernel.into(),
        or(info("containerRuntimeVersion"), "<unknown>").into(),
    ]
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object();
    let role = |(name, value): (&'_ String, &'_ Value)| {
        let value = value.as_str().unwrap_or_default();
        match name.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role.to_owned()),
            None => (name == "kubernetes.io/role").then(|| value.to_owned()),
        }
        .filter(|role| !role.is_empty())
    };
    let mut roles: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
    roles.sort();
    roles.dedup();
    or(&roles.join(","), "<none>").to_owned()
}

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(service, "/spec/ports")
        .iter()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64().filter(|port| *port > 0) {
                Some(node_port) => format!("{}:{node_port}/{protocol}", port["port"]),
                None => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    vec![
        text(service, "/metadata/name").into(),
        text(service, "/spec/type").into(),
        service.pointer("/spec/clusterIPs/0").and_then(Value::as_str).unwrap_or("<none>").into(),
        external_ips(service).into(),
        or(&ports.join(","), "<none>").into(),
        age(service, now).into(),
        selector(&service["spec"]["selector"]).into(),
    ]
}

fn external_ips(service: &Value) -> String {
    let external = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str);
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "ClusterIP" | "NodePort" => {
            or(&external.collect::<Vec<_>>().join(","), "<none>").to_owned()
        }
        "LoadBalancer" => {
            // The real server collects these addresses in a sorted set.
            let mut ingress: Vec<&str> = list(service, "/status/loadBalancer/ingress")
                .iter()
                .map(|it| or(text(it, "/ip"), text(it, "/hostname")))
                .filter(|it| !it.is_empty())
                .collect();
            ingress.sort_unstable();
            ingress.dedup();
            let all: Vec<&str> = ingress.into_iter().chain(external).collect();
            or(&all.join(","), "<pending>").to_owned()
        }
        _ => "<unknown>".into(),
    }
}

fn selector(selector: &Value) -> String {
    let mut pairs: Vec<String> = selector
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    or(&pairs.join(","), "<none>").to_owned()
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let is_set = |field: &Value| field.as_str().is_some_and(|it| !it.is_empty());
    // `events.k8s.io` has other names for the same fields.
    let either = |ours: &str, theirs: &str| match event.pointer(ours) {
        None | Some(Value::Null) => event.pointer(theirs).cloned().unwrap_or_default(),
        Some(found) => found.clone(),
    };
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp");
    let first = if is_set(&first) { since(&first, now) } else { since(&event["eventTime"], now) };
    let last = either("/lastTimestamp", "/deprecatedLastTimestamp");
    let mut last = if is_set(&last) { since(&last, now) } else { first.clone() };
    let mut count =
        either("/count", "/deprecatedCount").as_i64().filter(|it| *it != 0).unwrap_or(1);
    if let Some(series) = event.get("series").filter(|it| it.is_object()) {
        last = since(&series["lastObservedTime"], now);
        count = series["count"].as_i64().unwrap_or_default();
    }
    let about = either("/involvedObject", "/regarding");
    let kind = about["kind"].as_str().unwrap_or_default().to_lowercase();
    let target = match about["name"].as_str().unwrap_or_default() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("/source", "/deprecatedSource");
    let source_of = |field: &str, otherwise: &str| {
        or(source[field].as_str().unwrap_or_default(), text(event, otherwise)).to_owned()
    };
    let component = if event.get("reportingComponent").is_some() {
        source_of("component", "/reportingComponent")
    } else {
        source_of("component", "/reportingController")
    };
    let host = source_of("host", "/reportingInstance");
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    let message = either("/message", "/note");
    vec![
        last.into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        target.into(),
        about["fieldPath"].as_str().unwrap_or_default().into(),
        source.into(),
        message.as_str().unwrap_or_default().trim().into(),
        first.into(),
        count.into(),
        text(event, "/metadata/name").into(),
    ]
}

/// Maximum number of addresses or ports that a cell shows.
const N_SHOWN: usize = 3;

fn some_of(all: &[String]) -> String {
    let shown = all.iter().take(N_SHOWN).cloned().collect::<Vec<_>>().join(",");
    match all.len().saturating_sub(N_SHOWN) {
        0 => or(&shown, "<unset>").to_owned(),
        n_more => format!("{shown} + {n_more} more..."),
    }
}

fn endpoints(endpoints: &Value) -> String {
    let subsets = list(endpoints, "/subsets");
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let ips = || list(subset, "/addresses").iter().map(|it| text(it, "/ip"));
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            all.extend(ips().map(str::to_owned));
        }
        for port in ports {
            all.extend(ips().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{}", port["port"]),
                false => format!("{ip}:{}", port["port"]),
            }));
        }
    }
    if all.is_empty() { String::new() } else { some_of(&all) }
}

fn slice_ports(slice: &Value) -> String {
    let shown = |port: &Value| match (&port["port"], port["name"].as_str()) {
        (Value::Number(port), _) => port.to_string(),
        (_, Some(name)) => name.to_owned(),
        (_, None) => "*".to_owned(),
    };
    some_of(&list(slice, "/ports").iter().map(shown).collect::<Vec<_>>())
}

fn slice_addresses(slice: &Value) -> String {
    let addresses = list(slice, "/endpoints").iter().flat_map(|it| list(it, "/addresses"));
    some_of(&addresses.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
}

fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = list(binding, "/subjects").iter().filter(|it| it["kind"] == kind);
        let shown = of_kind.map(|it| match kind {
            "ServiceAccount" => format!("{}/{}", text(it, "/namespace"), text(it, "/name")),
            _ => text(it, "/name").to_owned(),
        });
        json!(shown.collect::<Vec<_>>().join(", "))
    };
    vec![
        text(binding, "/metadata/name").into(),
        format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")).into(),
        age(binding, now).into(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
