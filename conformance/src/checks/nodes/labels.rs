//! NODE-…: labels and taints of a Node that other clients change, too.

use serde_json::json;

use crate::checks::build::{SETTLED, T_INIT, T_STATUS, patch, s, set_address, world};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::Backend;

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new("NODE-003", [foreign_taints()]),
        Check::new("NODE-007", [Case::new(world(5, SETTLED), twins)]),
        Check::new("NODE-008", [prelabelled(backend)]),
        Check::new("NODE-011", [beta_only(), with_an_address()]),
        Check::new("NODE-012", [ga_changed()]),
        Check::new("NODE-013", [stable_only(backend)]),
    ]
}

fn foreign_taints() -> Case {
    let taint = |key: &str| json!({"key": key, "value": "yes", "effect": "NoSchedule"});
    let ours = json!({
        "key": "node.cloudprovider.kubernetes.io/uninitialized",
        "value": "something-else",
        "effect": "NoExecute",
    });
    let taints =
        json!({"spec": {"taints": [taint("example.com/a"), ours, taint("example.com/b")]}});
    Case::new(world(2, SETTLED).at(s(0), patch(&name(1), taints)), |run| {
        run.initializes(&names(2), s(0), T_INIT).and(|| {
            let left = run.node(&name(1)).map(|node| node.taints).unwrap_or_default();
            Verdict::pass_if(left == ["example.com/a", "example.com/b"], || {
                format!("the provider has to remove only the uninitialized taint; the taints at the end are {left:?}")
            })
        })
    })
}

fn twins(run: &Run) -> Verdict {
    for name in names(5) {
        let Some(node) = run.node_object(&name) else {
            return Verdict::fail(format!("node {name} does not exist at the end"));
        };
        let labels = &node["metadata"]["labels"];
        for &(ga, beta) in pairs(run.backend()) {
            if labels[ga].is_null() || labels[ga] != labels[beta] {
                return Verdict::fail(format!(
                    "the labels of {name} have to be equal and not empty: {ga} is {}, {beta} is {}",
                    labels[ga], labels[beta]
                ));
            }
        }
    }
    Verdict::Pass
}

fn prelabelled(backend: Backend) -> Case {
    let mut labels = serde_json::Map::new();
    for (ga, beta) in pairs(backend) {
        labels.insert((*ga).into(), json!("kubelet"));
        labels.insert((*beta).into(), json!("kubelet"));
    }
    let scenario =
        world(5, SETTLED).at(s(0), patch(&name(1), json!({"metadata": {"labels": labels}})));
    Case::new(scenario, |run| {
        twins(run).and(|| {
            let node = run.node(&name(1)).unwrap_or_default();
            Verdict::pass_if(!node.labels.contains(&Some("kubelet".to_owned())), || {
                format!(
                    "the provider kept labels that the kubelet set; the labels are {:?}",
                    node.labels
                )
            })
        })
    })
}

/// Returns a scenario in which a person changes labels of the first node at this second, when the
/// node has long been initialized.
fn relabel(at: u64, changes: serde_json::Value) -> crate::scenario::Scenario {
    world(2, s(300)).at(s(at), patch(&name(1), json!({"metadata": {"labels": changes}})))
}

fn beta_only() -> Case {
    let scenario = relabel(
        100,
        json!({
            "topology.kubernetes.io/zone": null,
            "failure-domain.beta.kubernetes.io/zone": "by-hand",
        }),
    );
    Case::new(scenario, |run| {
        let shown =
            run.when_after(&name(1), s(100), |node| node.labels[0].as_deref() == Some("by-hand"));
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() <= s(100) + T_INIT), || {
            format!(
                "the GA label got the value of the beta label {shown}; the limit is 10 s",
                shown = when(shown)
            )
            .late(shown)
        })
    })
}

/// Creates a case in which a label and an address of a node need a write at the same time. Both
/// must arrive.
fn with_an_address() -> Case {
    let label = json!({
        "topology.kubernetes.io/zone": null,
        "failure-domain.beta.kubernetes.io/zone": "by-hand",
    });
    let scenario = relabel(100, label).at(s(100), set_address(1, &["10.6.0.1"]));
    let case = Case::new(scenario, |run| {
        let shown = run.when_after(&name(1), s(100), |node| {
            node.labels[0].as_deref() == Some("by-hand") && node.ips().any(|ip| ip == "10.6.0.1")
        });
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() <= s(100) + T_STATUS), || {
            format!("the node shows the new label and the new address {shown}; the limit is an address period", shown = when(shown)).late(shown)
        })
    });
    case.named("with an address")
}

fn ga_changed() -> Case {
    let scenario = relabel(100, json!({"topology.kubernetes.io/zone": "by-hand"}));
    Case::new(scenario, |run| {
        let back =
            run.when_after(&name(1), s(101), |node| node.labels[0].as_deref() == Some("zone-a"));
        let now = run.node(&name(1)).and_then(|node| node.labels[0].clone());
        let beta = run.node_object(&name(1)).map(|node| {
            node["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"].clone()
        });
        Verdict::pass_if(now.as_deref() == Some("zone-a"), || {
            format!(
                "at the end the GA label is {now:?}, not zone-a; the provider restored it {back}",
                back = when(back)
            )
        })
        .and(|| {
            Verdict::pass_if(beta == Some(json!("zone-a")), || {
                format!("the beta label has to keep its value zone-a, but is {beta:?}")
            })
        })
    })
}

/// Creates a case in which a person removes the beta labels of a node, and the node changes again a
/// moment later. The provider must not restore them. It must copy the beta label of a second node
/// to the GA label, as proof that it reconciles labels meanwhile.
fn stable_only(backend: Backend) -> Case {
    const T_QUIET: std::time::Duration = s(30);
    let without: serde_json::Map<String, serde_json::Value> =
        pairs(backend).iter().map(|(_, beta)| ((*beta).to_owned(), json!(null))).collect();
    let beta_alone = json!({"metadata": {"labels": {
        "topology.kubernetes.io/zone": null,
        "failure-domain.beta.kubernetes.io/zone": "by-hand",
    }}});
    let touch = json!({"metadata": {"labels": {"example.com/touched": "true"}}});
    let scenario = world(2, SETTLED + T_QUIET + s(10))
        .at(SETTLED, patch(&name(1), json!({"metadata": {"labels": without}})))
        .at(SETTLED + s(5), patch(&name(1), touch))
        .at(SETTLED + s(5), patch(&name(2), beta_alone));
    Case::new(scenario, move |run| {
        let written = run
            .writes_on(&name(1))
            .find(|call| call.t.since_start() > SETTLED && call.req.detail.contains("labels"))
            .map(ToString::to_string);
        let back = run.node_object(&name(1)).and_then(|node| {
            let labels = &node["metadata"]["labels"];
            pairs(backend).iter().map(|(_, beta)| *beta).find(|beta| !labels[*beta].is_null())
        });
        let followed =
            run.when_after(&name(2), SETTLED, |node| node.labels[0].as_deref() == Some("by-hand"));
        run.initializes(&names(2), s(0), T_INIT)
            .and(|| {
                Verdict::none(written, |written| {
                    format!("the provider wrote labels of the node although its GA labels were right: {written}")
                })
            })
            .and(|| Verdict::none(back, |label| format!("the provider restored the beta label {label}, which a person had removed")))
            .and(|| match followed {
                Some(_) => Verdict::Pass,
                None => Verdict::inconclusive("the provider did not reconcile the labels of the other node"),
            })
    })
}

/// Returns the GA and beta labels for which the backend has a value: a Supervisor has only zones.
fn pairs(backend: Backend) -> &'static [(&'static str, &'static str)] {
    if backend.is_vcenter() { &PAIRS } else { &PAIRS[..1] }
}

/// Pairs of the GA and the beta label with the same meaning.
const PAIRS: [(&str, &str); 3] = [
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
];
