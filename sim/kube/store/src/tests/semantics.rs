//! Tests of revisions, conflicts, subresources, finalizers, pages and selectors.

use std::time::Duration;

use serde_json::{Value, json};

use super::{create_node, nodes, now, store};
use crate::Time;
use crate::{
    Action, Command, Effect, FieldSelector, GroupResource, Key, LabelSelector, Paging, PatchKind,
    Preconditions, Selection, Store, WatchType,
};

fn merge(name: &str, patch: Value) -> Command {
    Command::patch(Key::node(name), PatchKind::Merge, patch)
}

#[test]
fn a_write_that_changes_nothing_makes_no_revision() {
    let mut store = store();
    store.done(create_node("a"));
    let before = store.revision();
    assert_eq!(store.done(merge("a", json!({}))), Effect::Unchanged);
    assert_eq!(store.done(merge("a", json!({"status": {"phase": "x"}}))), Effect::Unchanged);
    assert_eq!(store.done(merge("a", json!({"spec": {"unschedulable": null}}))), Effect::Unchanged);
    let same = store.node("a");
    assert_eq!(store.done(Command::update(Key::node("a"), same)), Effect::Unchanged);
    assert_eq!(store.revision(), before);
}

#[test]
fn the_object_and_status_endpoints_change_their_part_and_metadata() {
    let mut store = store();
    store.done(create_node("a"));
    let both = json!({
        "metadata": {"labels": {"x": "y"}},
        "spec": {"unschedulable": true},
        "status": {"phase": "Running"},
    });
    store.done(merge("a", both.clone()).on_status());
    let node = store.node("a");
    assert_eq!(node["status"]["phase"], "Running");
    assert!(node["spec"]["unschedulable"].is_null());
    assert_eq!(node["metadata"]["labels"]["x"], "y");
    store.done(merge("a", both));
    assert_eq!(store.node("a")["spec"]["unschedulable"], true);
    let leases = GroupResource::of("coordination.k8s.io", "leases");
    let lease = Command::update(Key::new(leases, "default", "l"), json!({})).on_status();
    assert_eq!(store.run(lease).unwrap_err().code, 404, "leases have no status subresource");
}

#[test]
fn a_write_with_an_old_resource_version_or_another_uid_conflicts() {
    let mut store = store();
    store.done(create_node("a"));
    let old = store.node("a");
    store.done(merge("a", json!({"metadata": {"labels": {"x": "y"}}})));
    let update = store.run(Command::update(Key::node("a"), old.clone())).unwrap_err();
    assert_eq!(update.code, 409);
    assert_eq!(
        update.message,
        "Operation cannot be fulfilled on nodes \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let version = &old["metadata"]["resourceVersion"];
    let patch = merge("a", json!({"metadata": {"resourceVersion": version, "labels": null}}));
    assert_eq!(store.run(patch).unwrap_err().code, 409);
    let mut blind = old;
    blind["metadata"]["resourceVersion"].take();
    assert_eq!(store.done(Command::update(Key::node("a"), blind)), Effect::Updated);
    let mut other = store.node("a");
    other["metadata"]["uid"] = "else".into();
    let other = store.run(Command::update(Key::node("a"), other)).unwrap_err();
    assert!(other.message.contains("Key: /registry/minions/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: else"), "{other}");
}

#[test]
fn finalizers_hold_a_deleted_object() {
    let mut store = store();
    let services = GroupResource::core("services");
    let key = Key::new(services.clone(), "default", "s");
    let service = json!({
        "metadata": {"name": "s", "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    store.done(Command::create(services.clone(), "default", service));
    assert_eq!(store.done(Command::delete(key.clone())), Effect::Terminating);
    let marked = store.get(&key).unwrap();
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-03-01T08:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(store.done(Command::delete(key.clone())), Effect::Unchanged);
    let add = json!({"metadata": {"finalizers": ["a.b/c", "service.kubernetes.io/load-balancer-cleanup"]}});
    let refused = store.run(Command::patch(key.clone(), PatchKind::Merge, add)).unwrap_err();
    assert_eq!(
        refused.message,
        "Service \"s\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a.b/c\"}"
    );
    let before = store.revision();
    let remove = json!({
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            "$setElementOrder/finalizers": [],
        },
    });
    let remove = Command::patch(key.clone(), PatchKind::StrategicMerge, remove).on_status();
    assert_eq!(store.done(remove), Effect::Deleted);
    assert_eq!(store.get(&key), None);
    let told = store.watch_since(&services, &Selection::default(), before).unwrap();
    assert_eq!((told.len(), told[0].kind), (1, WatchType::Deleted));
    assert_eq!(told[0].object["metadata"]["resourceVersion"], store.revision().to_string());
}

#[test]
fn a_deletion_is_refused_unless_its_preconditions_hold() {
    let mut store = store();
    store.done(create_node("a"));
    let delete = |preconditions| Command {
        action: Action::Delete { preconditions, how: Default::default() },
        ..Command::delete(Key::node("a"))
    };
    let other = Preconditions { uid: Some("u".into()), ..Preconditions::default() };
    let uid = store.node("a")["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(
        store.run(delete(other)).unwrap_err().message,
        format!(
            "Operation cannot be fulfilled on Node \"a\": the UID in the precondition (u) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    let right = Preconditions {
        uid: Some(uid.clone()),
        resource_version: Some(store.revision().to_string()),
    };
    assert_eq!(store.done(delete(right)), Effect::Deleted);
    store.done(create_node("a"));
    assert_ne!(
        store.node("a")["metadata"]["uid"],
        uid,
        "a new object with the name of a deleted one gets another uid"
    );
}

#[test]
fn generation_counts_changes_of_the_specification() {
    let mut store = store();
    let pods = GroupResource::core("pods");
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let first = store.run(Command::create(pods.clone(), "default", pod.clone())).unwrap();
    let second = store.run(Command::create(pods.clone(), "default", pod)).unwrap();
    let name =
        |it: &crate::Decision| it.reply.object["metadata"]["name"].as_str().unwrap().to_owned();
    assert_ne!(name(&first), name(&second));
    assert_eq!(name(&first).len(), "p-xxxxx".len());
    let key = Key::new(pods, "default", name(&first));
    for (name, patch, on_status, want) in [
        ("metadata", json!({"metadata": {"labels": {"a": "b"}}}), false, 1),
        ("status", json!({"status": {"phase": "Running"}}), true, 1),
        ("specification", json!({"spec": {"activeDeadlineSeconds": 9}}), false, 2),
    ] {
        let command = Command::patch(key.clone(), PatchKind::Merge, patch);
        store.done(if on_status { command.on_status() } else { command });
        assert_eq!(store.get(&key).unwrap()["metadata"]["generation"], want, "{name}");
    }
}

#[test]
fn dry_runs_answer_and_change_nothing() {
    let mut store = store();
    let before = store.clone();
    assert_eq!(store.done(create_node("a").dry_run()), Effect::Created);
    assert!(store == before);
}

#[test]
fn a_create_needs_a_namespace_that_exists_and_is_not_terminating() {
    let mut store = store();
    let maps = GroupResource::core("configmaps");
    let map = || Command::create(maps.clone(), "room", json!({"metadata": {"name": "m"}}));
    assert_eq!(store.run(map()).unwrap_err().message, "namespaces \"room\" not found");
    let namespaces = GroupResource::core("namespaces");
    store.done(Command::create(namespaces.clone(), "", json!({"metadata": {"name": "room"}})));
    store.done(map());
    assert_eq!(
        store.done(Command::delete(Key::new(namespaces.clone(), "", "room"))),
        Effect::Terminating
    );
    let refused =
        store.run(Command::create(maps.clone(), "room", json!({"metadata": {"name": "n"}})));
    assert_eq!(
        refused.unwrap_err().message,
        "configmaps \"n\" is forbidden: unable to create new content in namespace room because it is being terminated"
    );
    let kept = store.run(Command::delete(Key::new(namespaces, "", "kube-system"))).unwrap_err();
    assert_eq!(
        kept.message,
        "namespaces \"kube-system\" is forbidden: this namespace may not be deleted"
    );
}

#[test]
fn old_pages_and_watches_expire() {
    let mut store = store();
    for name in ["a", "b", "c"] {
        store.done(create_node(name));
    }
    let first = Paging { limit: 1, ..Paging::default() };
    let first = store.list(&nodes(), &Selection::default(), &first).unwrap();
    assert_eq!((first.items.len(), first.remaining), (1, Some(2)));
    store.done(Command::delete(Key::node("b")));
    store.compact(0);
    let next =
        Paging { limit: 5, continue_token: first.continue_token.unwrap(), ..Paging::default() };
    let expired = store.list(&nodes(), &Selection::default(), &next).unwrap_err();
    assert_eq!((expired.code, expired.reason.as_ref()), (410, "Expired"));
    let next = Paging { continue_token: expired.continue_token.unwrap(), ..next };
    let rest = store.list(&nodes(), &Selection::default(), &next).unwrap();
    let names: Vec<_> = rest.items.iter().map(|it| it["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["c"], "the new token continues in the current state");
    let told = store.watch_since(&nodes(), &Selection::default(), first.revision).unwrap_err();
    assert_eq!(
        told.message,
        format!("too old resource version: {} ({})", first.revision, store.revision())
    );
    assert!(store.watch_since(&nodes(), &Selection::default(), store.revision()).is_ok());
}

#[test]
fn the_watch_log_is_bounded() {
    let mut store = store();
    store.set_window(3);
    for name in ["a", "b", "c", "d"] {
        store.done(create_node(name));
    }
    let since = |revision| store.watch_since(&nodes(), &Selection::default(), revision);
    assert_eq!(since(store.revision() - 3).unwrap().len(), 3);
    assert_eq!(since(store.revision() - 4).unwrap_err().code, 410);
}

#[test]
fn label_selectors_match() {
    let object = json!({"metadata": {"labels": {"zone": "a", "x.io/n": "5", "empty": ""}}});
    for (text, want) in [
        ("", true),
        ("zone=a", true),
        ("zone==a", true),
        ("zone = a , x.io/n", true),
        ("zone!=a", false),
        ("nothing!=a", true),
        ("zone in (a,b)", true),
        ("zone in (b)", false),
        ("zone notin (b, c)", true),
        ("nothing notin (b)", true),
        ("zone notin (a)", false),
        ("zone", true),
        ("nothing", false),
        ("!zone", false),
        ("! nothing", true),
        ("empty=", true),
        ("empty", true),
        ("empty in ()", true),
        ("x.io/n>4", true),
        ("x.io/n<5", false),
        ("zone>1", false),
        ("in", false),
    ] {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&object), want, "{text:?}");
    }
}

#[test]
fn bad_label_selectors_are_refused() {
    for (text, want) in [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b)", "found ')', expected: ',' or 'end of string'"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        assert_eq!(LabelSelector::parse(text).unwrap_err().message, want, "{text:?}");
    }
}

#[test]
fn field_selectors_match() {
    let store = store();
    let events = store.resource(&GroupResource::core("events")).unwrap();
    let nodes = store.resource(&nodes()).unwrap();
    let event = json!({
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "a,b"},
    });
    let node = json!({"metadata": {"name": "n"}, "spec": {}});
    for (def, object, text, want) in [
        (events, &event, "metadata.name=e", true),
        (events, &event, "metadata.name!=e", false),
        (events, &event, "involvedObject.kind==Node,metadata.namespace=default", true),
        (events, &event, r"involvedObject.name=a\,b", true),
        (events, &event, "reason=", true),
        (nodes, &node, "spec.unschedulable=false", true),
        (nodes, &node, "spec.unschedulable!=true", true),
        (nodes, &node, "spec.unschedulable=true", false),
        (nodes, &node, "", true),
    ] {
        assert_eq!(FieldSelector::parse(text, def).unwrap().matches(object), want, "{text:?}");
    }
}

#[test]
fn the_uid_of_an_object_depends_on_its_path_alone() {
    let (mut one, mut two) = (store(), store());
    one.done(create_node("a"));
    two.done(create_node("b"));
    two.done(create_node("a"));
    assert_eq!(one.node("a")["metadata"]["uid"], two.node("a")["metadata"]["uid"]);
    assert_eq!(now().to_string(), one.node("a")["metadata"]["creationTimestamp"]);
}

#[test]
fn changes_older_than_two_compactions_are_forgotten_except_the_last_512() {
    let mut store = store();
    for n in 0..10 {
        store.done(create_node(&format!("n{n}")));
    }
    let patch = |n: usize| {
        let patch = json!({"metadata": {"labels": {"n": n.to_string()}}});
        Command::patch(Key::node("n0"), PatchKind::Merge, patch)
    };
    let known = |store: &Store| {
        let since = |revision| store.watch_since(&nodes(), &Selection::default(), revision);
        (0..store.revision()).filter(|revision| since(*revision).is_ok()).count()
    };
    let minute = |n: u64| Time::after_start(Duration::from_secs(60 * n));
    (0..1_000).for_each(|n| {
        store.done(patch(n));
    });
    let all = known(&store);
    assert!(all > 1_000);
    store.run_compactions(minute(4));
    assert_eq!(known(&store), all, "no compaction before 5 minutes");
    store.run_compactions(minute(5));
    assert_eq!(known(&store), all, "the first compaction forgets nothing");
    (1_000..1_700).for_each(|n| {
        store.done(patch(n));
    });
    store.run_compactions(minute(9));
    assert_eq!(known(&store), all + 700, "no second compaction before 10 minutes");
    store.run_compactions(minute(10));
    assert_eq!(known(&store), 700, "the second compaction forgets the changes before the first");
    store.run_compactions(minute(60));
    assert_eq!(known(&store), 512, "compactions keep the last 512 changes");
}

#[test]
fn a_watch_keeps_up_when_all_nodes_change_at_one_moment() {
    const N_NODES: usize = 5_000;
    let mut store = store();
    let name = |n: usize| format!("n{n}");
    (0..N_NODES).for_each(|n| {
        store.done(create_node(&name(n)));
    });
    let before = store.revision();
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    for n in 0..N_NODES {
        store.done(Command::patch(Key::node(name(n)), PatchKind::Merge, patch.clone()));
    }
    let told = store.watch_since(&nodes(), &Selection::default(), before).unwrap();
    assert_eq!(told.len(), N_NODES, "the log keeps one change of every Node");
}

#[test]
fn a_node_recreated_under_an_uncounted_name_gets_a_new_uid() {
    let mut store = store();
    let mut uids = Vec::new();
    let mut live = |store: &mut Store| {
        store.done(create_node("a"));
        uids.push(store.node("a")["metadata"]["uid"].clone());
        store.done(Command::delete(Key::node("a")));
    };
    live(&mut store);
    live(&mut store);
    store.graves.stop(nodes());
    live(&mut store);
    let restored = Store::restore(store.ids, store.snapshot());
    assert_eq!(restored, store);
    live(&mut store);
    assert!((1..uids.len()).all(|n| !uids[..n].contains(&uids[n])), "{uids:?}");
}
