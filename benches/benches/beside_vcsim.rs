//! Compares our sim with govmomi's vcsim: the same client sends the same requests with TLS on
//! loopback, to one simulator after the other.
//!
//! Both run as processes, as users run them: our sim with 1,000 and with 10,000 machines, vcsim
//! with 1,000. The bench prints the time from process start to the first answered login, and per
//! operation the rate over eight connections and the latency over one. Building vcsim needs Go;
//! without Go the bench prints a note and measures only our sim.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "the bench measures wall time")]

use std::time::{Duration, Instant};

use benches::peer::{Peer, Program};
use benches::{envelope, read_machine};
use futures::future::join_all;

/// Number of calls of each operation before its measurement.
const WARM: usize = 100;
/// Duration of each of the two measurements of an operation: latency, then rate.
const LASTS: Duration = Duration::from_secs(3);
/// Number of concurrent connections for the rate.
const CONNECTIONS: usize = 8;

/// Measurements of one operation: calls per second over [`CONNECTIONS`] connections, and the median
/// and 99th percentile of the latency over one connection.
struct Figures {
    rate: f64,
    median: Duration,
    p99: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let programs = [Program::vcsim(1_000), Program::sim(1_000), Program::sim(10_000)];
    let mut reference: Option<Vec<f64>> = None;
    println!(
        "{:<22} {:<40} {:>10} {:>10} {:>10} {:>8}",
        "program", "operation", "calls/s", "median", "p99", "ratio"
    );
    for program in programs {
        let program = match program {
            Ok(program) => program,
            Err(why) => {
                eprintln!("skipped: {why}");
                continue;
            }
        };
        let rates = measure(&program, reference.as_deref()).await;
        reference.get_or_insert(rates);
    }
}

/// Starts a program, measures every operation, prints the figures, and stops the program.
/// `reference` has the rates of the program that was measured first, for the ratios; `None` while
/// measuring that first program. Returns the rates in the order of the operations.
async fn measure(program: &Program, reference: Option<&[f64]>) -> Vec<f64> {
    let peer = program.start().await;
    println!(
        "{:<22} {:<40} {:>21.1?}",
        program.name, "process start to first login", peer.started_in
    );
    let uuids = peer.uuids().await;
    let machine = peer.reference(&uuids[uuids.len() / 2]).await;
    let read = |paths: &[&str]| vec![read_machine(&machine, paths)];
    let operations = [
        ("FindByUuid", uuids.iter().map(|uuid| find_by_uuid(uuid)).collect()),
        (
            "RetrievePropertiesEx, three leaves",
            read(&["name", "runtime.powerState", "guest.ipAddress"]),
        ),
        ("RetrievePropertiesEx, config summary guest", read(&["config", "summary", "guest"])),
    ];
    let mut rates = Vec::new();
    for (index, (name, requests)) in operations.iter().enumerate() {
        let figures = ask(&peer, requests).await;
        let ratio = reference.map(|rates| format!("{:.1}", figures.rate / rates[index]));
        println!(
            "{:<22} {:<40} {:>10.0} {:>10.2?} {:>10.2?} {:>8}",
            program.name,
            name,
            figures.rate,
            figures.median,
            figures.p99,
            ratio.unwrap_or_default()
        );
        rates.push(figures.rate);
    }
    rates
}

/// Sends the requests in turn, first over one connection and then over [`CONNECTIONS`] connections
/// at once, each time for [`LASTS`]. Returns the measurements, without the first [`WARM`] calls.
async fn ask(peer: &Peer, requests: &[String]) -> Figures {
    let mut turn = requests.iter().cycle();
    for _ in 0..WARM {
        peer.call(turn.next().expect("at least one request").clone()).await;
    }
    let mut took = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < LASTS {
        let request = turn.next().expect("at least one request").clone();
        let sent = Instant::now();
        peer.call(request).await;
        took.push(sent.elapsed());
    }
    took.sort();
    let begin = Instant::now();
    let calls: usize = join_all((0..CONNECTIONS).map(|connection| async move {
        let mut turn = requests.iter().cycle().skip(connection * requests.len() / CONNECTIONS);
        let mut calls = 0;
        while begin.elapsed() < LASTS {
            peer.call(turn.next().expect("at least one request").clone()).await;
            calls += 1;
        }
        calls
    }))
    .await
    .into_iter()
    .sum();
    Figures {
        rate: calls as f64 / begin.elapsed().as_secs_f64(),
        median: took[took.len() / 2],
        p99: took[took.len() * 99 / 100],
    }
}

fn find_by_uuid(uuid: &str) -> String {
    envelope(&format!(
        r#"<FindByUuid xmlns="urn:vim25"><_this type="SearchIndex">SearchIndex</_this><uuid>{uuid}</uuid><vmSearch>true</vmSearch><instanceUuid>false</instanceUuid></FindByUuid>"#
    ))
}
