//! Assignment of unique addresses and node ports to services.
//!
//! Follows `kubernetes: pkg/registry/core/service/storage`. The cluster has one range of addresses,
//! `10.96.0.0/12`. The [`seed`] of a service, which is its namespace and name at first, determines
//! which free address it gets. The address therefore does not depend on other services, unless
//! another service already has the address to which the seed hashes.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::families::{keep_assigned_values, settle_addresses, settle_families};
use super::{has_node_ports, id, is_headless, needs_address, needs_health_check, node_ports};
use crate::kind::ObjectReader;
use crate::object::{fields, meta};
use crate::{FieldErrors, Key, Status};

/// First address of the range for services, `10.96.0.0/12`.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const N_ADDRESSES: u32 = 1 << 20;
/// First node port; the last is 32767. A service gets one of the first 86 ports only if it requests
/// this port.
const FIRST_PORT: u16 = 30_000;
const N_PORTS: u16 = 2_768;
const N_NAMED_PORTS: u16 = 86;

pub(super) type Spec = Map<String, Value>;

/// Assigns the addresses and ports that a new or changed service needs and does not have yet.
///
/// # Errors
/// 422 or 500, with the text of the real server, if the service requests an address, a port or IP
/// families that it cannot have.
pub(super) fn allocate(
    store: &dyn ObjectReader,
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
        keep_assigned_values(&before, &mut spec);
    }
    settle_addresses(old, &mut spec);
    settle_families(old, &mut spec).map_err(invalid)?;
    let mut pool = Pool { store, seed: &seed, taken: None };
    pool.addresses(old, &mut spec).map_err(invalid)?;
    pool.ports(&before, &mut spec).map_err(|refusal| match refusal {
        Refusal::Fields(errors) => invalid(errors),
        Refusal::Internal(why) => Status::internal(&why),
    })?;
    *fields::map_mut(service, "spec") = spec;
    Ok(())
}

/// Returns the text whose hash selects the address and ports of a service. On the creation of the
/// first service of a name, it consists of namespace and name. Each later creation and each update
/// has another text, so that the store does not assign released addresses and ports again at once.
fn seed(store: &dyn ObjectReader, service: &Value, old: Option<&Value>) -> String {
    let (namespace, name) = (meta::text(service, "namespace"), meta::text(service, "name"));
    let key = Key::new(id(), namespace, name);
    let version = old.map_or("", |old| meta::text(old, "resourceVersion"));
    match (store.incarnation(&key), version) {
        (None, "") => format!("{namespace}/{name}"),
        (n_before, version) => {
            format!("{namespace}/{name}#{}@{version}", n_before.as_deref().unwrap_or("0"))
        }
    }
}

pub(super) fn view(spec: &Spec) -> Value {
    Value::Object(spec.clone())
}

pub(super) fn is_empty(spec: &Spec, field: &str) -> bool {
    match spec.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    }
}

enum Refusal {
    Fields(FieldErrors),
    Internal(String),
}

/// The addresses and ports in use, and the search for free ones for one service.
struct Pool<'a> {
    store: &'a dyn ObjectReader,
    /// The [`seed`] of the service.
    seed: &'a str,
    /// Addresses and ports in use; `None` until they are first needed, then read from the store.
    taken: Option<(BTreeSet<String>, BTreeSet<i64>)>,
}

impl Pool<'_> {
    fn in_use(&mut self) -> &mut (BTreeSet<String>, BTreeSet<i64>) {
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

    /// Assigns an address to a service that needs one and is not headless, if the service is new or
    /// its old type needed none. Fails if the address that the service requests is not available.
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
        self.in_use().0.contains(ip).then(|| "provided IP is already allocated".into())
    }

    fn free_address(&mut self) -> String {
        let [a, b, c, _] = digest(self.seed);
        let mut ip = u32::from_be_bytes([10, 96 + a % 16, b, 1 + c % 254]);
        let taken = &self.in_use().0;
        // The loop ends, because the range has more addresses than the store has services.
        while taken.contains(&Ipv4Addr::from(ip).to_string()) {
            ip = FIRST_ADDRESS + 1 + (ip - FIRST_ADDRESS) % (N_ADDRESSES - 2);
        }
        Ipv4Addr::from(ip).to_string()
    }

    /// Assigns node ports and a port for health checks to a service that needs them. A load
    /// balancer with `allocateLoadBalancerNodePorts: false` gets only the node ports that it
    /// requests. Fails if the service requests a port that is not available.
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
                // Entries of a new service with the same port number, for example for TCP and UDP,
                // share one node port, unless the service requests others.
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
        if self.in_use().1.contains(&port) {
            return Err("provided port is already allocated".into());
        }
        Ok(())
    }

    fn free_port(&mut self, seed: &str, mine: &[i64]) -> i64 {
        let [a, b, ..] = digest(seed);
        let n_free = N_PORTS - N_NAMED_PORTS;
        let start = u16::from_be_bytes([a, b]);
        let taken = &self.in_use().1;
        let port = |n: u16| i64::from(FIRST_PORT + N_NAMED_PORTS + start.wrapping_add(n) % n_free);
        // If all ports are taken, two services share one, so that the service can still be created.
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
