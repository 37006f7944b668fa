//! Fuzz target: selectors. A label selector prints as text that parses to the same selector, which
//! selects the same objects. A field selector always parses to the same selector, and with one more
//! condition selects no additional object.
//!
//! Input: a line with a label selector and a line with a field selector.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sim_world::Ids;
use sim_world::objects::{FieldSelector, GroupResource, LabelSelector, Store};

static STORE: LazyLock<Store> = LazyLock::new(|| Store::new(Ids::new(0)));
static OBJECTS: LazyLock<[Value; 3]> = LazyLock::new(|| {
    [
        json!({"metadata": {"name": "a", "labels": {"a": "b", "n": "5", "example.com/x": ""}}}),
        json!({"metadata": {"name": "b", "namespace": "c"}, "spec": {"unschedulable": true, "nodeName": "d"}}),
        json!({}),
    ]
});

fuzz_target!(|text: &str| {
    let (labels, fields) = text.split_once('\n').unwrap_or((text, ""));
    if let Ok(selector) = LabelSelector::parse(labels) {
        let printed = selector.to_string();
        let again = LabelSelector::parse(&printed);
        assert_eq!(again.as_ref(), Ok(&selector), "{labels:?} prints as {printed:?}");
        for object in &*OBJECTS {
            let same = again.as_ref().is_ok_and(|it| it.matches(object) == selector.matches(object));
            assert!(same, "{labels:?}");
        }
        assert!(!selector.is_empty() || OBJECTS.iter().all(|object| selector.matches(object)));
    }
    for resource in ["nodes", "pods", "events"] {
        let def = STORE.resource(&GroupResource::core(resource)).expect("a built-in resource");
        let Ok(selector) = FieldSelector::parse(fields, def) else { continue };
        // The same text always parses to the same selector, and an additional condition never
        // selects more.
        assert_eq!(FieldSelector::parse(fields, def).as_ref(), Ok(&selector));
        if let Ok(more) = FieldSelector::parse(&format!("{fields},metadata.name=a"), def) {
            for object in &*OBJECTS {
                assert!(!more.matches(object) || selector.matches(object), "{fields:?}");
            }
        }
    }
});
