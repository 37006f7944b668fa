//! Property tests with random commands: replayed events and a restored snapshot give equal stores,
//! the same commands make the same events, and a watch reports every change.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{now, store};
use crate::Ids;
use crate::{
    Action, Command, Event, GroupResource, Key, Op, Paging, PatchKind, Preconditions, Selection,
    Store, WatchType,
};

/// A random step of a history. [`Step::command`] turns the step into a command for the objects that
/// exist before the step.
#[derive(Clone, Debug)]
struct Step {
    resource: u8,
    name: u8,
    verb: Verb,
    on_status: bool,
}

#[derive(Clone, Debug)]
enum Verb {
    Create { finalizer: bool },
    Update { label: u8, stale: bool },
    Patch { kind: PatchKind, value: u8 },
    DropFinalizers,
    Delete { by_uid: bool },
    Compact { keep: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let kind =
        prop_oneof![Just(PatchKind::Merge), Just(PatchKind::StrategicMerge), Just(PatchKind::Json)];
    let verb = prop_oneof![
        4 => any::<bool>().prop_map(|finalizer| Verb::Create { finalizer }),
        3 => (0..3_u8, any::<bool>()).prop_map(|(label, stale)| Verb::Update { label, stale }),
        4 => (kind, 0..4_u8).prop_map(|(kind, value)| Verb::Patch { kind, value }),
        1 => Just(Verb::DropFinalizers),
        3 => any::<bool>().prop_map(|by_uid| Verb::Delete { by_uid }),
        1 => (0..20_u8).prop_map(|keep| Verb::Compact { keep }),
    ];
    (0..4_u8, 0..4_u8, verb, any::<bool>()).prop_map(|(resource, name, verb, on_status)| Step {
        resource,
        name,
        verb,
        on_status,
    })
}

impl Step {
    fn key(&self) -> Key {
        let name = format!("it-{}", self.name);
        match self.resource {
            0 => Key::node(name),
            1 => Key::new("services", "default", name),
            2 => Key::new(
                "configmaps",
                if self.name.is_multiple_of(2) { "default" } else { "kube-system" },
                name,
            ),
            _ => Key::new("leases.coordination.k8s.io", "kube-system", name),
        }
    }

    /// Returns the command of the step for the objects in the store; `None` for a compaction.
    fn command(&self, store: &Store) -> Option<Command> {
        let key = self.key();
        let existing = store.get(&key).map(|it| it.as_ref().clone());
        let command = match &self.verb {
            Verb::Create { finalizer } => {
                let finalizers = if *finalizer { vec!["example.com/hold"] } else { Vec::new() };
                let object = json!({
                    "metadata": {"name": key.name, "finalizers": finalizers},
                    "spec": {"ports": [{"port": 80}]},
                });
                Command::create(key.resource, key.namespace, object)
            }
            Verb::Update { label, stale } => {
                let mut object =
                    existing.unwrap_or_else(|| json!({"metadata": {"name": key.name}}));
                object["metadata"]["labels"] = json!({"label": label.to_string()});
                if *stale {
                    object["metadata"]["resourceVersion"] = "1".into();
                }
                Command::update(key, object)
            }
            Verb::Patch { kind: PatchKind::Json, value } => {
                let patch = json!([{"op": "replace", "path": "/metadata/labels/label", "value": value.to_string()}]);
                Command::patch(key, PatchKind::Json, patch)
            }
            Verb::Patch { kind, value } => {
                let patch = json!({
                    "metadata": {"annotations": {"n": value.to_string()}},
                    "status": {"conditions": [{"type": "T", "status": value.to_string()}]},
                });
                Command::patch(key, *kind, patch)
            }
            Verb::DropFinalizers => {
                Command::patch(key, PatchKind::Merge, json!({"metadata": {"finalizers": null}}))
            }
            Verb::Delete { by_uid } => {
                let uid = existing.as_ref().and_then(|it| it["metadata"]["uid"].as_str());
                let uid = uid.filter(|_| *by_uid).map(str::to_owned);
                let preconditions = Preconditions { uid, resource_version: None };
                Command {
                    action: Action::Delete { preconditions, how: Default::default() },
                    ..Command::delete(key)
                }
            }
            Verb::Compact { .. } => return None,
        };
        Some(if self.on_status { command.on_status() } else { command })
    }
}

fn run(steps: &[Step]) -> (Store, Vec<Event>) {
    let mut store = store();
    let mut events = Vec::new();
    for step in steps {
        if let Verb::Compact { keep } = step.verb {
            store.compact(keep.into());
        }
        let Some(command) = step.command(&store) else { continue };
        let Ok(decision) = store.decide(now(), command) else { continue };
        for event in decision.events {
            store.fold(&event);
            events.push(event);
        }
    }
    (store, events)
}

fn listed(store: &Store, resource: &GroupResource) -> Vec<Value> {
    let page = store.list(resource, &Selection::default(), &Paging::default()).unwrap();
    page.items.iter().map(|it| it.as_ref().clone()).collect()
}

proptest! {
    #[test]
    fn replaying_the_events_gives_an_equal_store(steps in prop::collection::vec(step(), 0..60)) {
        let (original, events) = run(&steps);
        let text = serde_json::to_string(&events).unwrap();
        let events: Vec<Event> = serde_json::from_str(&text).unwrap();
        let mut replayed = store();
        for event in &events {
            replayed.fold(event);
        }
        prop_assert!(replayed == original);
    }

    #[test]
    fn a_snapshot_restores_an_equal_store(
        steps in prop::collection::vec(step(), 0..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(steps.len() + 1);
        let (before, _) = run(&steps[..cut]);
        let text = serde_json::to_string(&before.snapshot()).unwrap();
        let mut restored = Store::restore(Ids::new(7), serde_json::from_str(&text).unwrap());
        prop_assert!(restored == before);
        let (after, events) = run(&steps);
        for event in events.iter().filter(|event| event.revision > before.revision()) {
            restored.fold(event);
        }
        prop_assert!(restored == after);
        let nodes = GroupResource::core("nodes");
        let early = restored.watch_since(&nodes, &Selection::default(), before.revision() - 1);
        prop_assert_eq!(early.unwrap_err().code, 410);
    }

    #[test]
    fn the_same_steps_make_the_same_events(steps in prop::collection::vec(step(), 0..60)) {
        prop_assert_eq!(run(&steps).1, run(&steps).1);
    }

    #[test]
    fn revisions_only_grow_and_each_object_carries_the_revision_of_its_event(steps in prop::collection::vec(step(), 0..60)) {
        let start = store().revision();
        let (store, events) = run(&steps);
        let mut last = start;
        for event in &events {
            prop_assert!(event.revision > last);
            last = event.revision;
            prop_assert_eq!(&event.object["metadata"]["resourceVersion"], &event.revision.to_string());
            let held = store.get(&event.key).is_some_and(|it| it["metadata"]["uid"] == event.object["metadata"]["uid"]);
            prop_assert!(event.op != Op::Deleted || !held);
        }
        prop_assert_eq!(store.revision(), last);
    }

    #[test]
    fn a_watch_from_any_revision_leads_to_the_current_list(
        steps in prop::collection::vec(step(), 1..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(steps.len());
        let (before, _) = run(&steps[..cut]);
        let (after, _) = run(&steps);
        for def in before.resources() {
            let Ok(told) = after.watch_since(&def.id, &Selection::default(), before.revision()) else {
                continue;
            };
            let name = |it: &Value| format!("{}/{}", it["metadata"]["namespace"], it["metadata"]["name"]);
            let mut known: std::collections::BTreeMap<String, Value> =
                listed(&before, &def.id).into_iter().map(|it| (name(&it), it)).collect();
            for event in told {
                let object = event.object.as_ref().clone();
                let was = match event.kind {
                    WatchType::Added => known.insert(name(&object), object).is_none(),
                    WatchType::Modified => known.insert(name(&object), object).is_some(),
                    WatchType::Deleted => known.remove(&name(&object)).is_some(),
                };
                prop_assert!(was, "the type of an event must fit the objects that the watcher has");
            }
            let mut now = listed(&after, &def.id);
            now.sort_by_key(name);
            prop_assert_eq!(known.into_values().collect::<Vec<_>>(), now);
            let exact = Paging {
                resource_version: before.revision().to_string(),
                version_match: "Exact".into(),
                ..Paging::default()
            };
            let then = after.list(&def.id, &Selection::default(), &exact).unwrap();
            let then: Vec<Value> = then.items.iter().map(|it| it.as_ref().clone()).collect();
            prop_assert_eq!(
                then,
                listed(&before, &def.id),
                "a list at an older revision shows the state at that revision"
            );
        }
    }
}
