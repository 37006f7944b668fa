//! Addresses and node ports of services, which no two of them share.
//!
//! Follows `kubernetes: pkg/registry/core/service/storage`. The cluster has the one range
//! `10.96.0.0/12` of addresses. Which free one a service gets follows from its namespace and name, so
//! that no service changes what another gets unless they meet; see [`seed`].

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::validate::validate_addresses;
use super::{
    family, has_node_ports, id, is_headless, needs_address, needs_health_check, node_ports,
};
use crate::objects::{FieldErrors, Key, Status, Store, fields, meta};

/// Addresses of services: `10.96.0.0/12`.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const N_ADDRESSES: u32 = 1 << 20;
/// Ports of nodes: 30000 to 32767. The first ones are given only to those who name them.
const FIRST_PORT: u16 = 30_000;
const N_PORTS: u16 = 2_768;
const N_NAMED_PORTS: u16 = 86;

type Spec = Map<String, Value>;

/// Gives a service, old or new, what it needs.
pub(super) fn allocate(
    store: &Store,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let name = meta::text(service, "name").to_owned();
    let seed = seed(store, service, old);
    let invalid = |errors| Status::invalid("", "Service", &name, errors);
    let old = old.map(|old| &old["spec"]);
    let before = old.cloned().unwrap_or_default();
    let mut spec = std::mem::take(fields::map_mut(service, "spec"));
    if old.is_some() {
        keep_what_was_given(&before, &mut spec);
    }
    settle_addresses(old, &mut spec);
    settle_families(old, &mut spec).map_err(invalid)?;
    let mut pool = Pool { store, seed: &seed, taken: None };
    pool.addresses(old, &mut spec).map_err(invalid)?;
    pool.ports(&before, &mut spec).map_err(|refusal| match refusal {
        Refusal::Fields(errors) => invalid(errors),
        Refusal::Internal(why) => {
            Status::new(500, "InternalError", format!("Internal error occurred: {why}"))
        }
    })?;
    *fields::map_mut(service, "spec") = spec;
    Ok(())
}

/// What a service gets follows from this: from its name as long as it is the first of it, and gets
/// everything on creation. What was given back is not given again at once.
fn seed(store: &Store, service: &Value, old: Option<&Value>) -> String {
    let (namespace, name) = (meta::text(service, "namespace"), meta::text(service, "name"));
    let key = Key::new(id(), namespace, name);
    let version = old.map_or("", |old| meta::text(old, "resourceVersion"));
    match (store.graves.successor(&key, store.revision + 1), version) {
        (None, "") => format!("{namespace}/{name}"),
        (n_before, version) => {
            format!("{namespace}/{name}#{}@{version}", n_before.as_deref().unwrap_or("0"))
        }
    }
}

fn view(spec: &Spec) -> Value {
    Value::Object(spec.clone())
}

fn is_empty(spec: &Spec, field: &str) -> bool {
    match spec.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    }
}

/// An update that leaves out what was given keeps it.
fn keep_what_was_given(old: &Value, spec: &mut Spec) {
    let new = view(spec);
    if needs_address(old) && needs_address(&new) {
        for field in ["clusterIP", "clusterIPs"] {
            if is_empty(spec, field) && !old[field].is_null() {
                spec.insert(field.into(), old[field].clone());
            }
        }
    }
    let allocates = |spec: &Value| {
        has_node_ports(spec)
            && (spec["type"] == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false)
    };
    if allocates(old) && allocates(&new) {
        let (before, after) = (node_ports(old), node_ports(&new));
        let used: Vec<i64> = before.into_iter().filter(|port| after.contains(port)).collect();
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let name = fields::text(port, "/name");
            let ports = fields::list(old, "/ports");
            let same = ports.iter().rev().find(|it| fields::text(it, "/name") == name);
            let known = same.and_then(|it| it["nodePort"].as_i64()).unwrap_or_default();
            if port["nodePort"].as_i64().unwrap_or_default() == 0
                && known != 0
                && !used.contains(&known)
            {
                fields::as_map(port).insert("nodePort".into(), known.into());
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(&new)
        && is_empty(spec, "healthCheckNodePort")
        && !old["healthCheckNodePort"].is_null()
    {
        spec.insert("healthCheckNodePort".into(), old["healthCheckNodePort"].clone());
    }
}

/// `clusterIP` and `clusterIPs` say the same, whoever of them was written.
fn settle_addresses(old: Option<&Value>, spec: &mut Spec) {
    let one = spec.get("clusterIP").cloned().unwrap_or_default();
    let Some(old) = old else {
        if !is_empty(spec, "clusterIP") && is_empty(spec, "clusterIPs") {
            spec.insert("clusterIPs".into(), json!([one]));
        }
        return;
    };
    let before = fields::text(old, "/clusterIP");
    let is_same = one.as_str().unwrap_or_default() == before;
    if is_empty(spec, "clusterIPs") && is_same && !fields::list(old, "/clusterIPs").is_empty() {
        spec.insert("clusterIPs".into(), old["clusterIPs"].clone());
    }
    // Who changes one address, and leaves the list alone, means both.
    if !is_same && fields::list(&view(spec), "/clusterIPs") == fields::list(old, "/clusterIPs") {
        if one.as_str().is_none_or(str::is_empty) && !before.is_empty() {
            spec.shift_remove("clusterIPs");
        } else {
            spec.insert("clusterIPs".into(), json!([one]));
        }
    }
}

/// Fills in `ipFamilyPolicy` and `ipFamilies`; follows `initIPFamilyFields` for a cluster of IPv4.
fn settle_families(old: Option<&Value>, spec: &mut Spec) -> Result<(), FieldErrors> {
    const POLICY: &str = "spec.ipFamilyPolicy";
    let new = view(spec);
    if !needs_address(&new) || prefers_both_as_before(old, &new) {
        return Ok(());
    }
    let is_open =
        new["clusterIP"] == "None" && fields::map(&new, "/selector").is_none_or(Map::is_empty);
    if is_empty(spec, "ipFamilyPolicy") {
        let before = old.map(|old| &old["ipFamilyPolicy"]).filter(|it| it.is_string());
        let policy = match before {
            Some(before) => before.clone(),
            None if is_open => "RequireDualStack".into(),
            None => "SingleStack".into(),
        };
        spec.insert("ipFamilyPolicy".into(), policy);
    }
    let mut errors = FieldErrors::default();
    validate_addresses(&view(spec), old, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let policy = spec["ipFamilyPolicy"].clone();
    let is_single = policy == "SingleStack";
    if let Some(old) = old {
        shrink(old, spec, is_single, &mut errors);
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if is_single && fields::list(&view(spec), &format!("/{field}")).len() == 2 {
            let why = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            errors.invalid(POLICY, &policy, &why);
        }
    }
    infer_families(spec, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let families = fields::as_list(spec, "ipFamilies");
    if is_open {
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if families.len() < 2 && !is_single {
            let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.into());
        }
        return Ok(());
    }
    if policy == "RequireDualStack" {
        errors.invalid(POLICY, &policy, "this cluster is not configured for dual-stack services");
    }
    for (at, family) in families.iter().enumerate() {
        if family != "IPv4" {
            let why = "not configured on this cluster";
            errors.invalid(format!("spec.ipFamilies[{at}]"), family, why);
        }
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A service that takes both families where there are both stays as it is.
fn prefers_both_as_before(old: Option<&Value>, new: &Value) -> bool {
    let Some(old) = old else { return false };
    let is_preferred = |spec: &Value| spec["ipFamilyPolicy"] == "PreferDualStack";
    is_preferred(old)
        && is_preferred(new)
        && ["type", "clusterIPs", "ipFamilies"].iter().all(|field| old.get(field) == new.get(field))
}

/// Single stack gives up the second of what there are two.
fn shrink(old: &Value, spec: &mut Spec, is_single: bool, errors: &mut FieldErrors) {
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let before = fields::list(old, &format!("/{field}")).to_vec();
        let now = fields::list(&view(spec), &format!("/{field}")).to_vec();
        if is_single {
            if before == now && now.len() > 1 {
                spec.insert(field.into(), json!([now[0]]));
            }
        } else if !now.is_empty() && now.len() < before.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], &why);
        }
    }
}

/// Addresses say of which families they are.
fn infer_families(spec: &mut Spec, errors: &mut FieldErrors) {
    let ips = spec.get("clusterIPs").cloned().unwrap_or_default();
    for (at, ip) in ips.as_array().into_iter().flatten().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        if ip == "None" {
            break;
        }
        let families = fields::as_list(spec, "ipFamilies");
        if at >= families.len() {
            if family(ip) == "IPv4" {
                families.push("IPv4".into());
            } else {
                let why = format!("{} is not configured on this cluster", family(ip));
                errors.invalid(format!("spec.clusterIPs[{at}]"), &ips, &why);
            }
        }
    }
}

enum Refusal {
    Fields(FieldErrors),
    Internal(String),
}

/// What other services have.
struct Pool<'a> {
    store: &'a Store,
    /// Namespace and name of the service that asks.
    seed: &'a str,
    /// Addresses and ports, read when somebody asks for the first time.
    taken: Option<(BTreeSet<String>, BTreeSet<i64>)>,
}

impl Pool<'_> {
    fn taken(&mut self) -> &mut (BTreeSet<String>, BTreeSet<i64>) {
        let Self { store, taken, .. } = self;
        taken.get_or_insert_with(|| {
            let (mut ips, mut ports) = (BTreeSet::new(), BTreeSet::new());
            for service in store.all(&id()) {
                let spec = &service["spec"];
                let addresses = fields::list(spec, "/clusterIPs").iter().filter_map(Value::as_str);
                ips.extend(addresses.filter(|ip| *ip != "None").map(str::to_owned));
                ports.extend(node_ports(spec));
                if needs_health_check(spec) {
                    ports.extend(spec["healthCheckNodePort"].as_i64());
                }
            }
            (ips, ports)
        })
    }

    /// An address for a service that has none yet.
    fn addresses(&mut self, old: Option<&Value>, spec: &mut Spec) -> Result<(), FieldErrors> {
        let new = view(spec);
        let had_one = old.is_some_and(needs_address);
        if had_one || !needs_address(&new) || is_headless(&new) {
            return Ok(());
        }
        let given = fields::list(&new, "/clusterIPs").first().and_then(Value::as_str);
        let ip = match given.filter(|ip| !ip.is_empty()) {
            Some(ip) => {
                if let Some(why) = self.refuses(ip) {
                    let mut errors = FieldErrors::default();
                    let why = format!("failed to allocate IP {ip}: {why}");
                    errors.invalid("spec.clusterIPs", &new["clusterIPs"], &why);
                    return Err(errors);
                }
                ip.to_owned()
            }
            None => self.free_address(),
        };
        spec.insert("clusterIP".into(), ip.as_str().into());
        spec.insert("clusterIPs".into(), json!([ip]));
        Ok(())
    }

    fn refuses(&mut self, ip: &str) -> Option<String> {
        let number = ip.parse::<Ipv4Addr>().map(u32::from).unwrap_or_default();
        let Some(at) = number.checked_sub(FIRST_ADDRESS).filter(|at| *at < N_ADDRESSES) else {
            return Some("the provided network does not match the current range".into());
        };
        if at == 0 || at == N_ADDRESSES - 1 {
            let range = "10.96.0.0/12";
            return Some(format!(
                "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {range}"
            ));
        }
        self.taken().0.contains(ip).then(|| "provided IP is already allocated".into())
    }

    fn free_address(&mut self) -> String {
        let [a, b, c, _] = digest(self.seed);
        let mut ip = u32::from_be_bytes([10, 96 + a % 16, b, 1 + c % 254]);
        let taken = &self.taken().0;
        // There are more addresses than anybody has services.
        while taken.contains(&Ipv4Addr::from(ip).to_string()) {
            ip = FIRST_ADDRESS + 1 + (ip - FIRST_ADDRESS) % (N_ADDRESSES - 2);
        }
        Ipv4Addr::from(ip).to_string()
    }

    /// Ports on all nodes, and one for health checks.
    fn ports(&mut self, old: &Value, spec: &mut Spec) -> Result<(), Refusal> {
        let new = view(spec);
        let mut mine = node_ports(old);
        if has_node_ports(&new) {
            let allocates =
                new["type"] == "NodePort" || new["allocateLoadBalancerNodePorts"] != false;
            let mut given: Vec<(i64, i64)> = Vec::new();
            let is_new = old.is_null();
            for (at, port) in fields::list(&new, "/ports").iter().enumerate() {
                let wanted = port["nodePort"].as_i64().unwrap_or_default();
                if wanted == 0 && !allocates {
                    continue;
                }
                let number = port["port"].as_i64().unwrap_or_default();
                // One port for both protocols of one number, where nobody says otherwise.
                let shared = given.iter().find(|(known, _)| is_new && *known == number);
                let named = fields::list(&new, "/ports").iter().find(|it| {
                    is_new
                        && it["port"] == port["port"]
                        && it["nodePort"].as_i64().unwrap_or(0) != 0
                });
                let named = named.and_then(|it| it["nodePort"].as_i64()).unwrap_or(wanted);
                let chosen = match (wanted, shared) {
                    (0, Some((_, shared))) => *shared,
                    _ if named != 0 => {
                        if !mine.contains(&named) {
                            self.claim(named).map_err(|why| refused(at, named, &why))?;
                        }
                        if wanted != 0 { wanted } else { named }
                    }
                    _ => self.free_port(&format!("{}/{number}", self.seed), &mine),
                };
                mine.push(chosen);
                given.push((number, chosen));
                if let Some(port) = spec.get_mut("ports").and_then(|all| all.get_mut(at)) {
                    fields::as_map(port).insert("nodePort".into(), chosen.into());
                }
            }
        }
        self.health_check(old, spec, &mine)
    }

    fn health_check(&mut self, old: &Value, spec: &mut Spec, mine: &[i64]) -> Result<(), Refusal> {
        if needs_health_check(old) || !needs_health_check(&view(spec)) {
            return Ok(());
        }
        let wanted = spec.get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or_default();
        let port = if wanted == 0 {
            self.free_port(&format!("{}/health", self.seed), mine)
        } else {
            self.claim(wanted).map_err(|why| {
                Refusal::Internal(format!(
                    "failed to allocate requested HealthCheck NodePort {wanted}: {why}"
                ))
            })?;
            wanted
        };
        spec.insert("healthCheckNodePort".into(), port.into());
        Ok(())
    }

    fn claim(&mut self, port: i64) -> Result<(), String> {
        let range = i64::from(FIRST_PORT)..i64::from(FIRST_PORT + N_PORTS);
        if !range.contains(&port) {
            return Err(
                "provided port is not in the valid range. The range of valid ports is 30000-32767"
                    .into(),
            );
        }
        if self.taken().1.contains(&port) {
            return Err("provided port is already allocated".into());
        }
        Ok(())
    }

    fn free_port(&mut self, seed: &str, mine: &[i64]) -> i64 {
        let [a, b, ..] = digest(seed);
        let n_free = N_PORTS - N_NAMED_PORTS;
        let start = u16::from_be_bytes([a, b]);
        let taken = &self.taken().1;
        let port = |n: u16| i64::from(FIRST_PORT + N_NAMED_PORTS + start.wrapping_add(n) % n_free);
        // When all are taken, two services share one rather than none being made.
        let free = (0..n_free).map(port).find(|it| !taken.contains(it) && !mine.contains(it));
        free.unwrap_or_else(|| port(0))
    }
}

fn refused(at: usize, port: i64, why: &str) -> Refusal {
    let mut errors = FieldErrors::default();
    errors.invalid(format!("spec.ports[{at}].nodePort"), &port.into(), why);
    Refusal::Fields(errors)
}

fn digest(text: &str) -> [u8; 4] {
    let digest = Sha256::digest(text.as_bytes());
    [digest[0], digest[1], digest[2], digest[3]]
}
