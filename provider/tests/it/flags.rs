//! Tests of flags and environment variables that change the log and the rate of writes.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use provider::Options;
use tokio::time::{Instant, sleep};
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    cluster::Cluster,
    scenarios::{PLAIN, SECOND, start, swapped, uuid},
    vcenter::Vcenter,
};

/// The log of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn count(&self, words: &str) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(words)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_kept_without_its_machine_is_logged_once() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    for n in 1..=2 {
        vcenter.add(&format!("vm-{n}"), &uuid(n), &format!("node-{n}"), Some("10.0.0.1"));
        cluster.join(&format!("node-{n}"), &swapped(n));
    }
    let options = Options { skip_node_deletion: true, ..Options::default() };
    let lab = start(&vcenter, &cluster, PLAIN, options);
    sleep(10 * SECOND).await;
    vcenter.remove("vm-1");
    cluster.set_ready("node-1", false);
    sleep(300 * SECOND).await;
    assert!(cluster.node("node-1").is_some(), "the Node was deleted");
    assert_eq!(log.count("SKIP_NODE_DELETION is set"), 1);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn events_do_not_slow_down_the_writes_of_their_controller() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    for n in 0..10 {
        vcenter.add(&format!("vm-{n}"), &uuid(n), &format!("node-{n:03}"), Some("10.0.0.1"));
        cluster.join(&format!("node-{n:03}"), &swapped(n));
    }
    let options = Options { kube_api_qps: 1.0, kube_api_burst: 1, ..Options::default() };
    let lab = start(&vcenter, &cluster, PLAIN, options);
    let began = Instant::now();
    while !lab.all_initialized() {
        sleep(SECOND / 10).await;
    }
    let took = began.elapsed();
    sleep(60 * SECOND).await;
    let n_events = cluster.events().len();
    assert_eq!(n_events, 10, "an event per node");
    let writes = cluster.take_writes();
    let n_writes = writes.iter().filter(|line| !line.contains("/events")).count();
    let n_writes = u32::try_from(n_writes).unwrap();
    assert!(took < (n_writes + 3) * SECOND, "{took:?} for {n_writes} writes and {n_events} events");
    lab.finish().await;
}
