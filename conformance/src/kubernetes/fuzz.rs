//! Generated histories, played on both servers, and shrunk to the shortest that is answered differently.
//!
//! A history is made of what written sequences have shown to be alike: it looks for what goes wrong in combination.
//! What stays different (`docs/kubernetes-differences.md`) is not generated: server-side apply, rules in CEL, pods. Nor are
//! watches beside a custom kind that has just been made.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::sequence::{Clause, Sequence, Step};
use super::target::Target;
use super::{compare, known};

/// Requests of the longest history.
const LONGEST: usize = 16;

/// A kind of object.
#[derive(Clone, Copy, Debug)]
enum Kind {
    ConfigMap,
    Lease,
    Service,
    Node,
    /// A custom kind.
    Gadget,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Get,
    Create,
    Update,
    UpdateAtNewest,
    UpdateAtFirst,
    Merge,
    Strategic,
    Json,
    Status,
    Hold,
    Release,
    Delete,
    DeleteAtFirst,
    DeleteInForeground,
    DeleteAndOrphan,
    List,
    Page,
}

/// A request, before it has names and values.
#[derive(Clone, Copy, Debug)]
struct Act {
    verb: Verb,
    kind: Kind,
    name: u8,
    label: u8,
    value: u8,
}

/// A history, and the kind that is watched meanwhile.
#[derive(Clone, Debug)]
struct History {
    watched: Option<Kind>,
    /// Whether there is a custom kind. A real server takes its time to serve one.
    has_gadgets: bool,
    acts: Vec<Act>,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::ConfigMap),
        Just(Kind::Lease),
        Just(Kind::Service),
        Just(Kind::Node),
        Just(Kind::Gadget),
    ]
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        2 => Just(Verb::Get),
        6 => Just(Verb::Create),
        2 => Just(Verb::Update),
        2 => Just(Verb::UpdateAtNewest),
        1 => Just(Verb::UpdateAtFirst),
        2 => Just(Verb::Merge),
        2 => Just(Verb::Strategic),
        2 => Just(Verb::Json),
        2 => Just(Verb::Status),
        1 => Just(Verb::Hold),
        1 => Just(Verb::Release),
        2 => Just(Verb::Delete),
        1 => Just(Verb::DeleteAtFirst),
        1 => Just(Verb::DeleteInForeground),
        1 => Just(Verb::DeleteAndOrphan),
        2 => Just(Verb::List),
        1 => Just(Verb::Page),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let act = (verb(), kind(), 0..2_u8, 0..2_u8, 0..5_u8)
        .prop_map(|(verb, kind, name, label, value)| Act { verb, kind, name, label, value });
    // Reading a watch to its end takes two seconds on a real server.
    let watched = prop_oneof![7 => Just(None), 1 => kind().prop_map(Some)];
    let has_gadgets = prop_oneof![7 => Just(false), 1 => Just(true)];
    (watched, has_gadgets, vec(act, 1..LONGEST)).prop_map(|(watched, has_gadgets, acts)| {
        let served = |kind| match kind {
            Kind::Gadget if !has_gadgets => Kind::ConfigMap,
            other => other,
        };
        // The first write of a new kind takes a real server longer than a watch is open.
        let watched = watched.map(served).filter(|_| !has_gadgets);
        let acts = acts.into_iter().map(|act| Act { kind: served(act.kind), ..act }).collect();
        History { watched, has_gadgets, acts }
    })
}

impl Kind {
    /// Its plural, API version and kind.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ConfigMap => ("configmaps", "v1", "ConfigMap"),
            Self::Lease => ("leases", "coordination.k8s.io/v1", "Lease"),
            Self::Service => ("services", "v1", "Service"),
            Self::Node => ("nodes", "v1", "Node"),
            Self::Gadget => ("gadgets", "$id.example.com/v1", "Gadget"),
        }
    }

    fn collection(self) -> &'static str {
        match self {
            Self::ConfigMap => "$ns/configmaps",
            Self::Lease => "$leases",
            Self::Service => "$ns/services",
            Self::Node => "/api/v1/nodes",
            Self::Gadget => "/apis/$id.example.com/v1/namespaces/$id/gadgets",
        }
    }

    /// What is worth changing in it.
    fn content(self, value: u8) -> Value {
        match self {
            Self::ConfigMap => json!({"data": {"k": format!("v{value}")}}),
            Self::Lease => {
                json!({"spec": {"holderIdentity": format!("h{value}"), "leaseDurationSeconds": 10 + value}})
            }
            Self::Service => {
                let ports = json!([{"name": "p", "port": 80 + u16::from(value)}]);
                json!({"spec": match value {
                    0 => json!({"clusterIP": "None", "selector": {"app": "x"}, "ports": ports}),
                    1 => json!({"type": "LoadBalancer", "ports": ports}),
                    2 => json!({"type": "ClusterIP", "selector": {"app": "x"}, "ports": ports}),
                    3 => json!({"type": "NodePort", "ports": ports}),
                    _ => json!({"type": "ExternalName", "externalName": "a.example.com"}),
                }})
            }
            Self::Node => match value {
                2 => json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
                3 => json!({"spec": {"providerID": "vsphere://one"}}),
                _ => json!({"spec": {"unschedulable": value == 1}}),
            },
            Self::Gadget => match value {
                4 => json!({"spec": {"color": "green", "strange": 1}}),
                _ => json!({"spec": {"color": "red", "size": 1 + 3 * value}}),
            },
        }
    }

    fn status(self, value: u8) -> Value {
        match self {
            Self::Service => {
                json!({"status": {"loadBalancer": {"ingress": [{"ip": format!("192.0.2.{value}")}]}}})
            }
            Self::Gadget => json!({"status": {"ready": value == 1}}),
            _ => json!({"status": {"conditions": [{
                "type": "Ready", "status": if value == 1 { "True" } else { "False" },
                "lastHeartbeatTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z",
            }]}}),
        }
    }
}

impl Act {
    fn step(self) -> Step {
        let Self { verb, kind, name, label, value } = self;
        let verb = match (verb, kind) {
            // They have no status.
            (Verb::Status, Kind::ConfigMap | Kind::Lease) => Verb::Get,
            _ => verb,
        };
        let (plural, version, kind_name) = kind.names();
        let object = format!("$id-{name}");
        let collection = kind.collection();
        let path = format!("{collection}/{object}");
        let (first, newest) = (format!("first{plural}{name}"), format!("newest{plural}{name}"));
        let version_of = |name: &str| json!({"resourceVersion": format!("${name}")});
        let whole = |extra: Value| {
            let mut metadata =
                json!({"name": object, "labels": {"run": "$id", "app": format!("l{label}")}});
            merge(&mut metadata, extra);
            let mut body = json!({"apiVersion": version, "kind": kind_name, "metadata": metadata});
            merge(&mut body, kind.content(value));
            body
        };
        let selector = format!("labelSelector=run%3D$id,app%3Dl{label}");
        let (method, path, content_type, body) = match verb {
            Verb::Get => ("GET", path, None, None),
            Verb::Create => ("POST", collection.to_owned(), None, Some(whole(json!({})))),
            Verb::Update => ("PUT", path, None, Some(whole(json!({})))),
            Verb::UpdateAtNewest => ("PUT", path, None, Some(whole(version_of(&newest)))),
            Verb::UpdateAtFirst => ("PUT", path, None, Some(whole(version_of(&first)))),
            Verb::Merge => {
                let mut body =
                    json!({"metadata": {"labels": {"app": format!("l{label}"), "extra": null}}});
                merge(&mut body, kind.content(value));
                ("PATCH", path, Some("merge"), Some(body))
            }
            Verb::Strategic => {
                let body = json!({"metadata": {"labels": {"extra": format!("e{value}")}, "annotations": {"a": "b"}}});
                ("PATCH", path, Some("strategic"), Some(body))
            }
            Verb::Json => {
                let body = json!([
                    {"op": "test", "path": "/metadata/labels/app", "value": format!("l{label}")},
                    {"op": "replace", "path": "/metadata/labels/app", "value": format!("l{value}")},
                ]);
                ("PATCH", path, Some("json-patch"), Some(body))
            }
            Verb::Status => {
                let content_type = if matches!(kind, Kind::Gadget) { "merge" } else { "strategic" };
                ("PATCH", format!("{path}/status"), Some(content_type), Some(kind.status(value)))
            }
            Verb::Hold => {
                let body = json!({"metadata": {"finalizers": ["example.com/hold"]}});
                ("PATCH", path, Some("merge"), Some(body))
            }
            Verb::Release => {
                let body = json!({"metadata": {"finalizers": null}});
                ("PATCH", path, Some("merge"), Some(body))
            }
            Verb::Delete => ("DELETE", path, None, None),
            Verb::DeleteAtFirst => {
                let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": version_of(&first)});
                ("DELETE", path, None, Some(body))
            }
            Verb::DeleteInForeground => {
                ("DELETE", format!("{path}?propagationPolicy=Foreground"), None, None)
            }
            Verb::DeleteAndOrphan => {
                let body =
                    json!({"kind": "DeleteOptions", "apiVersion": "v1", "orphanDependents": true});
                ("DELETE", path, None, Some(body))
            }
            Verb::List => ("GET", format!("{collection}?{selector}"), None, None),
            Verb::Page => {
                ("GET", format!("{collection}?labelSelector=run%3D$id&limit=1"), None, None)
            }
        };
        let saved = match verb {
            Verb::Create => vec![first, newest],
            Verb::Update | Verb::Merge | Verb::Strategic | Verb::Json => vec![newest],
            _ => vec![],
        };
        Step {
            request: Some(format!("{method} {path}")),
            content_type: content_type.map(str::to_owned),
            body,
            save: saved.into_iter().map(|it| (it, "metadata.resourceVersion".to_owned())).collect(),
            ..Step::default()
        }
    }
}

impl History {
    fn sequence(&self) -> Sequence {
        // Versions that no earlier step has saved are those of nothing.
        let mut saved = BTreeSet::new();
        let mut steps = Vec::new();
        for act in &self.acts {
            let mut step = act.step();
            let version = step.body.as_mut().and_then(|body| {
                ["/metadata/resourceVersion", "/preconditions/resourceVersion"]
                    .into_iter()
                    .find(|path| body.pointer(path).is_some())
                    .and_then(|path| body.pointer_mut(path))
            });
            if let Some(version) = version
                && !version.as_str().is_some_and(|it| saved.contains(it.trim_start_matches('$')))
            {
                *version = "1".into();
            }
            saved.extend(step.save.keys().cloned());
            steps.push(step);
        }
        if let Some(kind) = self.watched {
            let path = format!("GET {}?labelSelector=run%3D$id", kind.collection());
            let save = BTreeMap::from([("now".to_owned(), "metadata.resourceVersion".to_owned())]);
            let watch = format!("{path}&watch=true&resourceVersion=$now&timeoutSeconds=2");
            let open =
                Step { request: Some(watch), watch: Some("w".to_owned()), ..Step::default() };
            steps.insert(0, open);
            steps.insert(0, Step { request: Some(path), save, ..Step::default() });
            steps.push(Step { read: Some("w".to_owned()), events: 2 * LONGEST, ..Step::default() });
        }
        if self.has_gadgets {
            let ready = Step {
                request: Some(format!("GET {}", Kind::Gadget.collection())),
                until: Some(200),
                ..Step::default()
            };
            steps.insert(0, ready);
            steps.insert(0, definition());
        }
        let name = "generated".to_owned();
        Sequence { name, clause: Clause::Writing, managed_fields: false, steps }
    }
}

/// The request that makes a custom kind.
fn definition() -> Step {
    const PATH: &str = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let spec = json!({
        "type": "object", "required": ["color"],
        "properties": {
            "color": {"type": "string", "enum": ["red", "blue"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        },
    });
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.$id.example.com"},
        "spec": {
            "group": "$id.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    Step { request: Some(PATH.to_owned()), body: Some(body), ..Step::default() }
}

/// Puts the fields of one object into another, deeply.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (field, value) in from {
                merge(into.entry(field).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Plays histories on both servers until one is answered differently.
///
/// # Errors
/// When the harness fails.
pub fn run(
    out: &mut impl Write,
    runtime: &Runtime,
    real: &Target,
    runs: u32,
    seed: u64,
) -> anyhow::Result<ExitCode> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases: runs,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let (played, requests) = (Cell::new(0_u64), Cell::new(0_usize));
    let play = |history: &History| -> anyhow::Result<Option<String>> {
        let sequence = history.sequence();
        played.set(played.get() + 1);
        requests.set(requests.get() + sequence.steps.len());
        let id = format!("kf-{:x}-{}", std::process::id(), played.get());
        let theirs = runtime.block_on(super::answers(&sequence, real, &id))?;
        let ours = super::simulated(&sequence)?;
        let Some((step, _)) = known::places(&theirs, &ours).pop_first() else { return Ok(None) };
        let (left, right) = (("kube-apiserver", &theirs[step - 1]), ("sim", &ours[step - 1]));
        Ok(Some(compare::report(&sequence, step - 1, left, right)))
    };
    let result =
        TestRunner::new_with_rng(config, rng).run(&history(), |history| match play(&history) {
            Ok(None) => Ok(()),
            Ok(Some(report)) => Err(TestCaseError::fail(report)),
            // Neither server may leave a request without an answer.
            Err(error) => Err(TestCaseError::fail(format!("{error:#}"))),
        });
    match result {
        Ok(()) => {
            writeln!(
                out,
                "{runs} histories, {} requests to each server, seed {seed}: alike",
                requests.get()
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(TestError::Fail(_, history)) => {
            let report = play(&history)?.unwrap_or_else(|| {
                "the second time there was no difference: the real server was late\n".to_owned()
            });
            writeln!(out, "the shortest history that is answered differently (seed {seed}):")?;
            let sequence = history.sequence();
            for step in &sequence.steps {
                writeln!(out, "  {}", compare::request(step))?;
            }
            writeln!(out, "{report}\nas a sequence for conformance/kubernetes:")?;
            writeln!(out, "- {}", serde_json::to_string(&sequence)?)?;
            Ok(ExitCode::from(1))
        }
        Err(TestError::Abort(why)) => anyhow::bail!("the harness could not go on: {why}"),
    }
}
