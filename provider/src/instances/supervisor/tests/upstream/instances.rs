//! The cases of `cloud-provider-vsphere: pkg/cloudprovider/vsphereparavirtual/instances_test.go`:
//! identity, existence, power state, and addresses.

use super::*;

/// Returns the provider ID that a new node with this name gets.
async fn id(way: &Way, name: &str) -> Result<String, Unknown> {
    match way.metadata(&node(name, None), ZoneWanted::Yes).await {
        Lookup::Found(metadata) => Ok(metadata.provider_id),
        Lookup::Unknown(why) => Err(why),
        gone @ Lookup::Gone { .. } => panic!("{gone:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn instance_id_is_the_uuid_of_the_machine_of_that_name() {
    for way in ways(|_| {}).await {
        assert_eq!(id(&way, "n0001").await, Ok("vsphere://e0001".to_owned()), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn instance_id_of_a_wrong_name_is_not_seen() {
    for way in ways(|_| {}).await {
        assert_eq!(id(&way, "wrong").await, Err(Unknown::NotSeen), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn instance_id_in_a_wrong_namespace_is_not_seen() {
    let empty = |fake: &Fake| (0..3).for_each(|i| fake.delete(nth(i).name.as_str()));
    for way in ways(empty).await {
        assert_eq!(id(&way, "n0001").await, Err(Unknown::NotSeen), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn instance_id_of_an_empty_uuid_is_an_error() {
    for way in ways(|fake| fake.put(object("empty", "", "10.0.0.9"))).await {
        let answer = id(&way, "empty").await;
        assert!(matches!(answer, Err(Unknown::Incomplete(_))), "{:?}: {answer:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn instance_id_while_the_server_fails_is_unknown_with_its_reason() {
    for way in ways(|_| {}).await {
        way.fail().await;
        let answer = id(&way, "other").await;
        let Err(Unknown::Unavailable(why)) = &answer else { panic!("{:?}: {answer:?}", way.mode) };
        assert!(why.contains("500"), "{:?}: {why}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_the_server_is_found() {
    for way in ways(|_| {}).await {
        assert_eq!(way.exists(&nth(1)).await, Lookup::Found(()), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_deleted_on_the_server_is_gone() {
    for way in ways(|_| {}).await {
        way.fake.delete("n0001");
        seconds(10).await;
        let answer = way.exists(&nth(1)).await;
        assert!(is_gone(&answer), "{:?}: {answer:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn existence_is_unknown_while_the_server_fails() {
    for way in ways(|_| {}).await {
        way.fake.delete("n0001");
        way.fail().await;
        for node in [nth(0), nth(1), node("n0002", None)] {
            let answer = way.exists(&node).await;
            let is_unknown = matches!(answer, Lookup::Unknown(Unknown::Unavailable(_)));
            assert!(is_unknown, "{:?} {}: {answer:?}", way.mode, node.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_off_is_shut_down() {
    let off = |fake: &Fake| fake.set("n0001", "/status/powerState", json!("PoweredOff"));
    for way in ways(off).await {
        assert_eq!(way.shutdown(&nth(1)).await, Some(true), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_on_is_not_shut_down() {
    for way in ways(|_| {}).await {
        assert_eq!(way.shutdown(&nth(1)).await, Some(false), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn the_power_state_of_a_missing_machine_is_unknown() {
    for way in ways(|fake| fake.delete("n0001")).await {
        assert_eq!(way.shutdown(&nth(1)).await, None, "{:?}", way.mode);
        let answer = way.instances.shutdown(&nth(1));
        assert!(matches!(answer, Lookup::Unknown(_)), "{:?}: {answer:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn the_power_state_is_unknown_while_the_server_fails() {
    let off = |fake: &Fake| fake.set("n0001", "/status/powerState", json!("PoweredOff"));
    for way in ways(off).await {
        way.fail().await;
        assert_eq!(way.shutdown(&nth(1)).await, None, "{:?}", way.mode);
        assert_eq!(way.shutdown(&nth(2)).await, None, "{:?}", way.mode);
    }
}

/// Returns the addresses of a node with this name and provider ID.
async fn addresses(way: &Way, name: &str, id: Option<&str>) -> Result<Vec<String>, Unknown> {
    match way.metadata(&node(name, id), ZoneWanted::No).await {
        Lookup::Found(metadata) => {
            metadata.addresses.map(|list| list.into_iter().map(|it| it.address).collect())
        }
        Lookup::Unknown(why) => Err(why),
        gone @ Lookup::Gone { .. } => panic!("{gone:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_are_the_same_by_name_and_by_provider_id() {
    for way in ways(|_| {}).await {
        let want = Ok(vec!["10.0.0.2".to_owned(), String::new()]);
        assert_eq!(addresses(&way, "n0001", None).await, want, "{:?}", way.mode);
        assert_eq!(addresses(&way, "n0001", Some("vsphere://e0001")).await, want);
        assert_eq!(addresses(&way, "renamed", Some("vsphere://e0001")).await, want);
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_of_a_machine_without_any_are_none() {
    for way in ways(|fake| fake.put(object("bare", "abc", ""))).await {
        assert_eq!(addresses(&way, "bare", None).await, Ok(Vec::new()), "{:?}", way.mode);
        let by_id = addresses(&way, "bare", Some("vsphere://abc")).await;
        assert_eq!(by_id, Ok(Vec::new()), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_of_a_machine_that_is_not_there_are_not_known() {
    for way in ways(|_| {}).await {
        for id in [None, Some("vsphere://none")] {
            let answer = addresses(&way, "none", id).await;
            assert_eq!(answer, Err(Unknown::NotSeen), "{:?}", way.mode);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_while_the_server_fails_are_not_known() {
    for way in ways(|_| {}).await {
        way.fail().await;
        // In polling mode, addresses of an initialized node may come from a list that is up to ten
        // minutes old.
        seconds(700).await;
        for id in [None, Some("vsphere://e0001")] {
            let answer = addresses(&way, "n0001", id).await;
            assert!(matches!(answer, Err(Unknown::Unavailable(_))), "{:?}: {answer:?}", way.mode);
        }
    }
}
