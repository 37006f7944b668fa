//! Measures the memory of a sim with a large cluster during a day of virtual time. Every kubelet
//! renews its lease every 10 s and reports its status every 5 min, and a client watches the Nodes
//! as informers do. Memory must not grow without bound. It reaches its peak within the first hour,
//! when the watch logs are full: about 435 MiB with 5,000 nodes.
//!
//! `cargo bench -p benches --bench fleet -- [NODES] [HOURS]`; the defaults are 5,000 and 24.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "the bench measures wall time")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::lab::peak_resident;
use http_body_util::{BodyExt as _, Empty};
use sim::ledger::Keep;
use sim::world::Topology;
use sim::{Sim, VIRTUAL_EPOCH};
use tower::ServiceExt as _;

/// Maximum of the resident memory in bytes: 2 GiB, which a laptop can spare.
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
        "{hours} h, {n_nodes} nodes with heartbeats: {took:.2?} of wall time, {n_events} events sent to a watch, {} MiB resident at most",
        resident >> 20
    );
    assert!(n_events > 0, "the watch received no event");
    assert!(resident < MAX_RESIDENT, "the process used more than 2 GiB of memory");
}

/// Runs a sim with a watch for this number of hours of virtual time. Prints the peak memory every
/// hour. Returns the number of events that the watch received.
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

/// Watches `path` until `end`, and starts a new watch whenever one ends. Returns the number of
/// events of all these watches, not counting bookmarks.
async fn follow(sim: &Sim, path: &str, end: tokio::time::Instant) -> u64 {
    let service = sim.cluster().service("informer");
    let uri = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3600");
    let mut n_events = 0;
    while tokio::time::Instant::now() < end {
        let request =
            http::Request::get(&uri).body(Empty::<Bytes>::new()).expect("the request is valid");
        let answer = service.clone().oneshot(request).await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
        let mut body = answer.into_body();
        while let Ok(Some(frame)) = tokio::time::timeout_at(end, body.frame()).await {
            let bytes = frame.expect("the watch does not break").into_data().unwrap_or_default();
            n_events += u64::from(!bytes.starts_with(b"{\"type\":\"BOOKMARK\""));
            assert!(!bytes.starts_with(b"{\"type\":\"ERROR\""), "the watch sent an error event");
        }
    }
    n_events
}
