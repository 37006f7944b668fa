//! Amounts of resources that pods request and Nodes offer, in billionths.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{list, map, text};
use crate::objects::quantity_nanos;

/// Amounts by the name of the resource.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// Reads a map of quantities.
pub(crate) fn amounts(object: &Value, pointer: &str) -> Amounts {
    let read =
        |(name, amount): (&String, &Value)| Some((name.clone(), quantity_nanos(amount.as_str()?)?));
    map(object, pointer).into_iter().flatten().filter_map(read).collect()
}

pub(crate) fn add(to: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        *to.entry(name.clone()).or_default() += amount;
    }
}

/// The requests of a pod: those of its containers and sidecars together, or those of the largest
/// init container with the sidecars before it, whichever is larger; then the overhead. Requests of
/// the pod as a whole replace those of its containers.
///
/// Follows `component-helpers: resource/helpers.go`, `PodRequests`.
pub(crate) fn of_pod(pod: &Value) -> Amounts {
    let request = |container: &Value| amounts(container, "/resources/requests");
    let mut sum = Amounts::new();
    list(pod, "/spec/containers").iter().for_each(|it| add(&mut sum, &request(it)));
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in list(pod, "/spec/initContainers") {
        let mut needed = request(container);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut largest, &needed);
    }
    add(&mut sum, &sidecars);
    raise(&mut sum, &largest);
    sum.extend(amounts(pod, "/spec/resources/requests"));
    add(&mut sum, &amounts(pod, "/spec/overhead"));
    sum
}

fn raise(amounts: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let slot = amounts.entry(name.clone()).or_default();
        *slot = (*slot).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_count_by_the_largest_and_sidecars_always() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = "Always".into();
        let pod = json!({"spec": {
            "initContainers": [sidecar, container("2")],
            "containers": [container("500m"), container("1")],
            "overhead": {"cpu": "50m", "memory": "1Mi"},
        }});
        let sum = of_pod(&pod);
        assert_eq!(sum["cpu"], 2_150_000_000, "the init container and the sidecar before it");
        assert_eq!(sum["memory"], (1 << 20) * 1_000_000_000);
    }
}
