//! Rules in CEL of custom kinds. The expected texts are answers of kube-apiserver 1.36.3 to the same
//! definitions and objects, except for the refusals of what the store does not evaluate.

mod definitions;
mod expressions;
mod limits;
mod objects;
mod updates;

use serde_json::{Value, json};

use super::{now, store};
use crate::{Command, Decision, GroupResource, Key, PatchKind, Status, Store};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

fn gadgets() -> GroupResource {
    GroupResource::of("rules.example.com", "gadgets")
}

/// Returns a definition of Gadgets whose objects have `spec`, and the rules `root`.
fn definition(spec: Value, root: Value) -> Value {
    let status = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    if root != json!([]) {
        schema["x-kubernetes-validations"] = root;
    }
    json!({
        "metadata": {"name": "gadgets.rules.example.com"},
        "spec": {
            "group": "rules.example.com",
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Returns the schema of an object with `properties` and `rules`.
fn object(properties: Value, rules: Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
}

/// Returns a store with a definition of Gadgets.
fn with(spec: Value, root: Value) -> Store {
    let mut store = store();
    store.done(Command::create(DEFINITIONS, "", definition(spec, root)));
    store
}

/// Returns the error texts of the definition of Gadgets with `spec`; empty if it is accepted.
fn problems(spec: Value) -> Vec<String> {
    let command = Command::create(DEFINITIONS, "", definition(spec, json!([])));
    let refused = store().decide(now(), command).err();
    refused.map(texts).unwrap_or_default()
}

fn create(store: &mut Store, spec: Value) -> Result<Decision, Status> {
    let gadget = json!({
        "apiVersion": "rules.example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g"}, "spec": spec,
    });
    store.run(Command::create(gadgets(), "default", gadget))
}

fn merge(store: &mut Store, patch: Value) -> Result<Decision, Status> {
    store.run(Command::patch(Key::new(gadgets(), "default", "g"), PatchKind::Merge, patch))
}

/// Returns reason, field and message of each cause.
fn texts(refused: Status) -> Vec<String> {
    assert_eq!(refused.code, 422, "{refused}");
    let causes = refused.details.unwrap().causes;
    causes.iter().map(|it| format!("{} {} {}", it.reason, it.field, it.message)).collect()
}

/// Returns the warnings of an accepted write, or the causes of its refusal.
fn outcome(done: Result<Decision, Status>) -> Result<Vec<String>, Vec<String>> {
    done.map(|done| done.reply.warnings).map_err(texts)
}
