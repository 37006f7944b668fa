//! Tests of the limits on the sizes of objects and watch logs. The expected errors are those of a
//! real server (1.36.3).

use serde_json::{Map, json};

use super::{create_node, nodes, store};
use crate::{Command, Key, PatchKind, Selection};

fn images(bytes: usize) -> Command {
    let patch = json!({"status": {"images": [{"names": ["x".repeat(bytes)], "sizeBytes": 1}]}});
    Command::patch(Key::node("n1"), PatchKind::Merge, patch).on_status()
}

#[test]
fn an_object_above_the_size_limit_of_etcd_is_refused_and_changes_nothing() {
    let mut store = store();
    store.done(create_node("n1"));
    store.done(images(1_571_000));
    let before = store.clone();
    for (bytes, want) in [
        (1_573_000, "etcdserver: request is too large"),
        (2_090_000, "etcdserver: request is too large"),
        (
            2_100_000,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than",
        ),
    ] {
        let refused = store.run(images(bytes)).expect_err("refusal of an object above the limit");
        assert_eq!((refused.code, refused.reason.as_ref()), (500, ""), "{bytes}");
        assert!(refused.message.starts_with(want), "{bytes}: {}", refused.message);
    }
    assert_eq!(store, before);
}

#[test]
fn labels_that_grow_a_node_above_the_size_limit_are_refused() {
    let mut store = store();
    store.done(create_node("n1"));
    let more = |n: usize| {
        let name = |label: usize| format!("{}/{n}-{label}", "a".repeat(200));
        let labels: Map<_, _> =
            (0..200).map(|label| (name(label), "b".repeat(60).into())).collect();
        let patch = json!({"metadata": {"labels": labels}});
        Command::patch(Key::node("n1"), PatchKind::Merge, patch)
    };
    let refused = (0..100).find_map(|n| store.run(more(n)).err().map(|status| (n, status)));
    let (n, status) = refused.expect("a refusal before 20000 labels");
    assert_eq!(status.message, "etcdserver: request is too large");
    // 200 labels take about 54 KB, and the limit is 1.5 MiB.
    assert!((10..30).contains(&n), "refused after {n} times 200 labels");
}

#[test]
fn the_watch_log_keeps_changes_up_to_64_mib() {
    let mut store = store();
    store.done(create_node("n1"));
    let first = store.revision();
    for n in 0..100 {
        store.done(images(1_500_000 + n));
    }
    let since = |revision| store.watch_since(&nodes(), &Selection::default(), revision);
    assert_eq!(since(first).expect_err("forgotten changes").code, 410);
    // The limit is 64 MiB, and each change takes about 1.5 MB.
    let known = (first..store.revision()).filter(|revision| since(*revision).is_ok()).count();
    assert_eq!(known, 44);
}
