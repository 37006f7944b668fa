//! The cases of `cloud-provider-vsphere: pkg/cloudprovider/vsphereparavirtual/zone_test.go`.

use super::*;
use crate::model::Zone;

async fn zone(way: &Way, name: &str, id: Option<&str>) -> Result<Option<Zone>, Unknown> {
    match way.metadata(&node(name, id), ZoneWanted::Yes).await {
        Lookup::Found(metadata) => metadata.zone,
        Lookup::Unknown(why) => Err(why),
        gone @ Lookup::Gone { .. } => panic!("{gone:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_is_the_label_of_the_machine_of_that_name() {
    for way in ways(|_| {}).await {
        let want = Zone { zone: "zone-a".to_owned(), region: None };
        assert_eq!(zone(&way, "n0001", None).await, Ok(Some(want)), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_is_the_label_of_the_machine_of_that_uuid() {
    for way in ways(|_| {}).await {
        let want = Zone { zone: "zone-a".to_owned(), region: None };
        let answer = zone(&way, "renamed", Some("vsphere://e0001")).await;
        assert_eq!(answer, Ok(Some(want)), "{:?}", way.mode);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_the_label_has_no_zone() {
    for way in ways(|fake| fake.set("n0001", "/metadata/labels", json!({"a": "b"}))).await {
        assert_eq!(zone(&way, "n0001", None).await, Ok(None), "{:?}", way.mode);
        assert_eq!(zone(&way, "n0001", Some("vsphere://e0001")).await, Ok(None));
    }
}

#[tokio::test(start_paused = true)]
async fn the_zone_of_a_machine_that_is_not_there_is_not_known() {
    for way in ways(|_| {}).await {
        assert_eq!(zone(&way, "none", None).await, Err(Unknown::NotSeen), "{:?}", way.mode);
        assert_eq!(zone(&way, "none", Some("vsphere://none")).await, Err(Unknown::NotSeen));
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_while_the_server_fails_is_not_known() {
    for way in ways(|_| {}).await {
        way.fail().await;
        for id in [None, Some("vsphere://e0001")] {
            let answer = zone(&way, "n0001", id).await;
            assert!(matches!(answer, Err(Unknown::Unavailable(_))), "{:?}: {answer:?}", way.mode);
        }
    }
}
