//! Measures the time of calls of our server for the Cluster Autoscaler, by number of groups and
//! machines: processor time of server, simulated Supervisor and client together, in one thread and in
//! virtual time. The budgets in `budgets.yaml` count the same calls.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "the bench measures times")]

use std::time::{Duration, Instant};

use conformance::cost::Fleet;
use conformance::lab::autoscaler::{Answer, SentNode, Session, Transcript};
use conformance::lab::in_virtual_time;

/// Number of measurements of each call. The bench prints their median.
const N: usize = 21;
/// Largest number of machines for which a loop is measured, because a loop makes calls per machine.
const LOOP: u32 = 100;
/// Largest size of a change.
const LARGEST: i32 = 10;

fn main() {
    println!("{:>7} {:>9}  {:<16} {:>10}", "groups", "machines", "call", "median ms");
    for fleet in Fleet::ALL {
        let times = in_virtual_time(measure(fleet)).expect("the server answers every call");
        for (call, time) in times {
            let ms = time.as_secs_f64() * 1000.0;
            println!("{:>7} {:>9}  {call:<16} {ms:>10.3}", fleet.groups, fleet.machines);
        }
    }
}

async fn measure(fleet: Fleet) -> Answer<Vec<(String, Duration)>> {
    let ours = fleet.serve().await?;
    let session = Fleet::session(&ours, Transcript::default()).await?;
    let mut times = Vec::new();
    if fleet.machines <= LOOP {
        let mut autoscaler = Fleet::idle_autoscaler(&session).await?;
        times.push(("first loop".to_owned(), timed(autoscaler.turn()).await?));
        let mut turns = Vec::new();
        for _ in 0..N {
            turns.push(timed(autoscaler.turn()).await?);
        }
        times.push(("loop".to_owned(), median(turns)));
    }
    let (mut refreshes, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..N {
        tokio::time::sleep(Duration::from_secs(10)).await;
        refreshes.push(timed(session.refresh()).await?);
        lists.push(timed(session.instances(Fleet::GROUP)).await?);
    }
    times.push(("Refresh".to_owned(), median(refreshes)));
    times.push(("NodeGroupNodes".to_owned(), median(lists)));
    for k in [1, LARGEST] {
        let (mut increases, mut deletions) = (Vec::new(), Vec::new());
        for _ in 0..N {
            let (increase, deletion) = changes(&session, k).await?;
            increases.push(increase);
            deletions.push(deletion);
        }
        times.push((format!("increase by {k}"), median(increases)));
        times.push((format!("delete of {k}"), median(deletions)));
    }
    Ok(times)
}

/// Increases the group by `k`, and deletes the new machines. Returns the times of both calls.
async fn changes(session: &Session, k: i32) -> Answer<(Duration, Duration)> {
    let before = session.live(Fleet::GROUP).await?;
    let increase = timed(session.increase(Fleet::GROUP, k)).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let now = session.live(Fleet::GROUP).await?;
    let new = now.difference(&before).map(|id| SentNode::fake(id, "unregistered"));
    let deletion = timed(session.delete(Fleet::GROUP, new)).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok((increase, deletion))
}

async fn timed<T>(call: impl Future<Output = Answer<T>>) -> Answer<Duration> {
    let begin = Instant::now();
    call.await?;
    Ok(begin.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
