//! Reads the VirtualMachineClasses of groups, from which the resources of a new machine follow.

use std::{collections::BTreeSet, sync::Arc};

use provider_vcenter::Chain;
use serde_json::Value;

use super::{
    super::group::{Capacity, Group},
    Shared,
};
use crate::{cluster::encode, controllers::quantity::Quantity};

/// Reads the classes of these groups. A class that cannot be read keeps its last known resources.
pub(super) async fn read(shared: &Shared, groups: &[Arc<Group>]) {
    let names: BTreeSet<&str> = groups.iter().map(|it| it.instance_type()).collect();
    for name in names {
        let Shared { version, namespace, .. } = shared;
        let path = format!(
            "/apis/vmoperator.vmware.com/{version}/namespaces/{namespace}/virtualmachineclasses/{}",
            encode(name)
        );
        let answer = match shared.cluster.get(&path).await {
            Ok(class) => capacity(&class),
            Err(err) if err.says_gone(name) => {
                Err(format!("the namespace has no VirtualMachineClass {name}"))
            }
            Err(err) => {
                tracing::warn!(class = %name, error = %Chain(&err), "reading a VirtualMachineClass failed; keeping what is known of it");
                continue;
            }
        };
        let mut classes = shared.classes.lock().expect("no holder panics");
        let before = classes.insert(name.to_owned(), answer.clone());
        if let (Err(problem), true) = (&answer, before.as_ref() != Some(&answer)) {
            tracing::warn!(class = %name, "the groups of this class cannot grow from zero: {problem}");
        }
    }
}

/// Returns the resources that a class gives to a machine.
fn capacity(class: &Value) -> Result<Capacity, String> {
    let hardware = &class["spec"]["hardware"];
    let cpus = hardware["cpus"].as_u64().and_then(|cpus| u32::try_from(cpus).ok());
    let memory = match &hardware["memory"] {
        Value::String(text) => text.parse::<Quantity>().ok(),
        Value::Number(bytes) => bytes.to_string().parse().ok(),
        _ => None,
    };
    match (cpus, memory) {
        (Some(cpus), Some(memory)) if cpus > 0 && !memory.is_zero() => {
            Ok(Capacity { cpu: Quantity::whole(cpus), memory })
        }
        _ => Err("spec.hardware of the VirtualMachineClass has no cpus and memory".to_owned()),
    }
}
