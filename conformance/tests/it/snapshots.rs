//! What a person would check: the calls and the final Nodes of one life, from join to delete.

use conformance::lab::{Stage, run};
use conformance::sweep;
use sim::ledger::{Kind, Record};
use sim::world::objects::GroupResource;

/// A record without what changes with the seed or the layout of answers: sessions, sizes, ids.
fn normalised(record: &Record) -> String {
    let phase = record.phase.as_deref().unwrap_or("-");
    if record.kind != Kind::Call {
        return format!("{phase:<9} -- {}", record.op);
    }
    let target = record.target.name.as_deref().unwrap_or_default();
    let status = record.ended.as_ref().and_then(|ended| ended.status);
    let status = status.map_or("open".to_owned(), |status| status.to_string());
    let name =
        if record.op == "create events" { target.split('.').next().unwrap_or("") } else { target };
    format!("{phase:<9} {:<8} {:<50} {name:<10} {status}", record.server, record.op)
}

#[test]
fn a_life_in_calls() {
    let run = run(&sweep::scenario(), &Stage::default());
    let mut lines: Vec<String> = run.ledger.iter().map(normalised).collect();
    // Long polls and watches that come back for the time alone say nothing.
    lines.dedup();
    insta::assert_snapshot!("a_life_in_calls", lines.join("\n"));
}

#[test]
fn a_life_in_nodes() {
    let run = run(&sweep::scenario(), &Stage::default());
    let nodes = GroupResource::core("nodes");
    let shown: Vec<serde_json::Value> = run
        .end
        .cluster
        .all(&nodes)
        .map(|node| {
            serde_json::json!({
                "name": node["metadata"]["name"],
                "labels": node["metadata"]["labels"],
                "spec": node["spec"],
                "addresses": node["status"]["addresses"],
            })
        })
        .collect();
    insta::assert_json_snapshot!("a_life_in_nodes", shown);
}

#[test]
fn a_life_in_events() {
    let run = run(&sweep::scenario(), &Stage::default());
    let events = GroupResource::core("events");
    let mut shown: Vec<String> = run
        .end
        .cluster
        .all(&events)
        .map(|event| {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            format!(
                "{} {} {}: {}",
                text(&event["involvedObject"]["name"]),
                text(&event["type"]),
                text(&event["reason"]),
                text(&event["message"])
            )
        })
        .collect();
    shown.sort();
    insta::assert_snapshot!("a_life_in_events", shown.join("\n"));
}
