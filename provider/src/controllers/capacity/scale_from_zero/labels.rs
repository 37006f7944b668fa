//! Labels of a new Node.

use serde_json::Value;

use super::{
    super::{
        keys::{ARCH_LABEL, LABELS, LINUX, OS_LABEL},
        plan::text,
    },
    Annotations, GroupObjects, GroupTemplate, Labels, ReaderSettings,
};

const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// Labels of a live Node that also a new Node has.
const OF_LIVE_NODE: [&str; 5] = [
    ARCH_LABEL,
    OS_LABEL,
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Domains, each with its subdomains, whose labels Cluster API copies from a Machine to its Node.
const MANAGED_DOMAINS: [&str; 2] = ["node-restriction.kubernetes.io", "node.cluster.x-k8s.io"];
const ROLE_DOMAIN: &str = "node-role.kubernetes.io";

/// Returns the labels. From the weakest to the strongest: defaults, `status.nodeInfo` of the template,
/// labels of the Machines that Cluster API copies, the annotation, labels of a live Node.
pub(super) fn labels(
    objects: &GroupObjects<'_>,
    annotations: &Annotations<'_>,
    settings: &ReaderSettings,
) -> Labels {
    let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let mut labels = Labels::from([
        own(ARCH_LABEL, &settings.default_architecture),
        own(OS_LABEL, LINUX),
        own(HOSTNAME_LABEL, objects.node_name),
    ]);
    if let GroupTemplate::Object(template) = objects.template {
        for (key, field) in [(ARCH_LABEL, "architecture"), (OS_LABEL, "operatingSystem")] {
            let told = text(&template["status"]["nodeInfo"][field]);
            labels.extend((!told.is_empty()).then(|| own(key, told)));
        }
    }
    labels.extend(copied(objects.group));
    let pairs = annotations.of_capacity(LABELS).unwrap_or_default().split(',');
    labels.extend(pairs.filter_map(|pair| pair.split_once('=')).map(|(key, it)| own(key, it)));
    if let Some(live) = objects.live_labels {
        labels.extend(OF_LIVE_NODE.iter().filter_map(|key| Some(own(key, live.get(*key)?))));
    }
    labels
}

/// Returns the labels of the Machines that Cluster API copies to their Nodes. Releases of the
/// autoscaler read them from either place; Cluster API has them in the second one.
fn copied(group: &Value) -> Labels {
    let template = &group["spec"]["template"];
    let places = [&template["spec"]["metadata"]["labels"], &template["metadata"]["labels"]];
    let all = places.into_iter().filter_map(Value::as_object).flatten();
    let managed = all.filter(|(key, _)| is_managed(key));
    managed.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

fn is_managed(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    let is_below = |managed: &str| {
        domain.strip_suffix(managed).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    domain == ROLE_DOMAIN || MANAGED_DOMAINS.iter().any(|managed| is_below(managed))
}
