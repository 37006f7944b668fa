//! Measures the memory of a day of virtual time in a large cluster: every node renews its lease every ten seconds and
//! reports its status every five minutes; a client watches the Nodes as informers do. Memory must not keep growing. It
//! reaches its peak within the first hour, when the watch logs are full: about 435 MiB with 5,000 nodes.
//!
//! `cargo bench -p benches --bench fleet -- [NODES] [HOURS]`, by default 5,000 and 24.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "wall time is what is measured")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::lab::peak_resident;
use http_body_util::{BodyExt as _, Empty};
use sim::ledger::Keep;
use sim::world::Topology;
use sim::{Sim, VIRTUAL_EPOCH};
use tower::ServiceExt as _;

/// Limit of memory in bytes: 2 GiB, which a laptop can spare.
const MAX_RESIDENT: u64 = 2 << 30;

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u32>().ok());
    let n_nodes = numbers.next().unwrap_or(5_000);
    let hours = numbers.next().unwrap_or(24);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime starts");
    let begin = Instant::now();
    let n_events = runtime.block_on(live(n_nodes, hours));
    let took = begin.elapsed();
    let resident = peak_resident().unwrap_or_default();
    println!(
        "{hours} h, {n_nodes} nodes with heartbeats: {took:.2?} of wall time, {n_events} events told to a watcher, {} MiB resident at most",
        resident >> 20
    );
    assert!(n_events > 0, "nobody was told of anything");
    assert!(resident < MAX_RESIDENT, "more than 2 GiB");
}

/// Lets the time pass; returns the number of events that the watcher received.
async fn live(n_nodes: u32, hours: u32) -> u64 {
    let sim = Sim::builder()
        .topology(Topology::zones(3).machines(n_nodes))
        .epoch(VIRTUAL_EPOCH)
        .keep(Keep::Last(10_000))
        .start();
    let end = tokio::time::Instant::now() + Duration::from_secs(3600 * u64::from(hours));
    let follow = follow(&sim, "/api/v1/nodes", end);
    tokio::pin!(follow);
    let mut hour = tokio::time::interval(Duration::from_secs(3600));
    let begin = Instant::now();
    for n in 0.. {
        tokio::select! {
            biased;
            n_events = &mut follow => return n_events,
            _ = hour.tick() => println!("{n:>3} h after {:.0?}: {} MiB", begin.elapsed(), peak_resident().unwrap_or_default() >> 20),
        }
    }
    0
}

/// Watches until `end`, with a new watch whenever one ends; returns the number of events.
async fn follow(sim: &Sim, path: &str, end: tokio::time::Instant) -> u64 {
    let service = sim.cluster().service("informer");
    let uri = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3600");
    let mut n_events = 0;
    while tokio::time::Instant::now() < end {
        let request = http::Request::get(&uri).body(Empty::<Bytes>::new()).expect("a good request");
        let answer = service.clone().oneshot(request).await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
        let mut body = answer.into_body();
        while let Ok(Some(frame)) = tokio::time::timeout_at(end, body.frame()).await {
            let bytes = frame.expect("a watch that does not break").into_data().unwrap_or_default();
            n_events += u64::from(!bytes.starts_with(b"{\"type\":\"BOOKMARK\""));
            assert!(!bytes.starts_with(b"{\"type\":\"ERROR\""), "the watch fell behind");
        }
    }
    n_events
}
