//! Tests of workloads: generated selectors, generations, scales, evictions and bindings. The expected
//! values are those of the real server.

use serde_json::{Value, json};

use super::store;
use crate::{Command, Effect, GroupResource, Key, PatchKind, Store, Subresource};

fn template(label: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": label}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn deployments() -> GroupResource {
    GroupResource::of("apps", "deployments")
}

fn deployment() -> Command {
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template("x")});
    let object = json!({"metadata": {"name": "a"}, "spec": spec});
    Command::create(deployments(), "default", object)
}

fn pod(store: &mut Store, name: &str) {
    let mut pod = template("x");
    pod["metadata"]["name"] = name.into();
    store.done(Command::create("pods", "default", pod));
}

fn on(part: Subresource, name: &str, object: Value) -> Command {
    Command {
        key: Key::new("pods", "default", name),
        subresource: Some(part),
        ..Command::create("pods", "default", object)
    }
}

#[test]
fn the_generation_of_a_deployment_counts_annotations_and_not_labels() {
    let mut store = store();
    store.done(deployment());
    let key = Key::new(deployments(), "default", "a");
    let generation = |store: &Store| store.get(&key).unwrap()["metadata"]["generation"].clone();
    for (patch, want) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"metadata": {"annotations": {"a": "b"}}}), 2),
        (json!({"spec": {"replicas": 3}}), 3),
    ] {
        store.done(Command::patch(key.clone(), PatchKind::Merge, patch));
        assert_eq!(generation(&store), want);
    }
}

#[test]
fn a_job_selects_its_pods_by_its_uid() {
    let mut store = store();
    let mut template = template("x");
    template["spec"]["restartPolicy"] = "Never".into();
    let object = json!({"metadata": {"name": "a"}, "spec": {"template": template}});
    store.done(Command::create("jobs.batch", "default", object));
    let job = store.get(&Key::new("jobs.batch", "default", "a")).unwrap();
    let uid = &job["metadata"]["uid"];
    assert_eq!(
        job["spec"]["selector"]["matchLabels"],
        json!({"batch.kubernetes.io/controller-uid": uid})
    );
    let labels = json!({
        "app": "x", "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid, "job-name": "a",
    });
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
}

#[test]
fn a_scale_shows_the_selector_as_text_and_changes_the_replicas() {
    let mut store = store();
    store.done(deployment());
    let key = Key::new(deployments(), "default", "a");
    let patch = Command::patch(key.clone(), PatchKind::Merge, json!({"spec": {"replicas": 5}}));
    let patch = Command { subresource: Some(Subresource::Scale), ..patch };
    let scale = store.run(patch).unwrap().reply.object;
    assert_eq!(
        (&scale["kind"], &scale["spec"], &scale["status"]),
        (&"Scale".into(), &json!({"replicas": 5}), &json!({"replicas": 0, "selector": "app=x"}))
    );
    assert_eq!(store.get(&key).unwrap()["spec"]["replicas"], 5);
}

#[test]
fn a_binding_assigns_a_pod_once() {
    let mut store = store();
    let labels = json!({"topology.kubernetes.io/zone": "z1"});
    store.done(Command::create("nodes", "", json!({"metadata": {"name": "n", "labels": labels}})));
    pod(&mut store, "a");
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    let bind = on(Subresource::Binding, "a", binding);
    assert_eq!(store.done(bind.clone().dry_run()), Effect::Created);
    assert_eq!(store.run(bind.clone()).unwrap().reply.object["status"], "Success");
    let bound = store.get(&Key::new("pods", "default", "a")).unwrap();
    assert_eq!(
        (&bound["spec"]["nodeName"], &bound["metadata"]["generation"]),
        (&"n".into(), &1.into())
    );
    assert_eq!(bound["metadata"]["labels"]["topology.kubernetes.io/zone"], "z1");
    let again = store.run(bind).unwrap_err();
    assert_eq!(
        again.message,
        r#"Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n""#
    );
}

#[test]
fn an_eviction_marks_the_pod_before_it_deletes_it() {
    let mut store = store();
    pod(&mut store, "a");
    let eviction = json!({
        "apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"},
    });
    let evict = on(Subresource::Eviction, "a", eviction);
    assert!(store.run(evict.clone().dry_run()).unwrap().events.is_empty());
    let decision = store.run(evict).unwrap();
    let marked = &decision.events[0].object["status"]["conditions"][0];
    assert_eq!(
        (&marked["type"], &marked["reason"]),
        (&"DisruptionTarget".into(), &"EvictionByEvictionAPI".into())
    );
    assert!(store.get(&Key::new("pods", "default", "a")).is_none());
    let revisions: Vec<u64> = decision.events.iter().map(|event| event.revision).collect();
    assert!(revisions.is_sorted() && revisions.len() == 3, "{revisions:?}");
}

#[test]
fn a_binding_and_an_eviction_of_another_namespace_are_refused() {
    let mut store = store();
    pod(&mut store, "a");
    let metadata = json!({"name": "a", "namespace": "other"});
    let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"metadata": metadata});
    for (part, object) in [(Subresource::Binding, binding), (Subresource::Eviction, eviction)] {
        let refused = store.run(on(part, "a", object)).unwrap_err();
        assert_eq!(
            (refused.code, &*refused.message),
            (
                400,
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        );
    }
}

#[test]
fn the_options_of_an_eviction_are_checked_as_those_of_a_deletion() {
    let mut store = store();
    pod(&mut store, "a");
    let options = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    let eviction = json!({"metadata": {"name": "a"}, "deleteOptions": options});
    let refused = store.run(on(Subresource::Eviction, "a", eviction)).unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (
            422,
            r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#
        )
    );
}
