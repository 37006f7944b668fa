//! Test of the memory that a provider process needs for a namespace with many machines.

use std::path::Path;

use super::*;
use crate::{
    paravirtual::{arguments, mount},
    process::{Process, kubeconfig, serve_cluster, serve_supervisor},
};

/// Number of machines in the namespace; each object has about 10 kB, like a real one.
const MACHINES: usize = 10_000;
/// Maximum peak of the resident memory. The complete objects alone would need 100 MB.
const LIMIT_KIB: u64 = 64 * 1024;

/// Peak of the resident memory of a process, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    let status = status.unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_of_ten_thousand_machines_fits_into_a_bounded_memory() {
    let (supervisor, cluster) = (Supervisor::new(), Cluster::new());
    let filler = "x".repeat(9_500);
    for i in 0..MACHINES {
        let mut machine = machine(i);
        machine["metadata"]["annotations"] = json!({ "filler": filler });
        supervisor.put(machine);
    }
    supervisor.pages_of(500, 0);
    cluster.join(&name(7), "");
    let (supervisor_port, ca) = serve_supervisor(supervisor.clone()).await;
    let cluster_port = serve_cluster(cluster.clone()).await;
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_owned();
    mount(&at, &ca, "one");
    let config = kubeconfig(&format!("http://127.0.0.1:{cluster_port}"));
    std::fs::write(at.join("kubeconfig"), config).unwrap();
    let peak = tokio::task::spawn_blocking(move || {
        let process = Process::start(&arguments(&at, supervisor_port));
        process.until("initialized");
        peak(process.child.id())
    });
    let peak = peak.await.unwrap();
    assert!(peak <= LIMIT_KIB, "peak of {peak} KiB resident memory");
}
