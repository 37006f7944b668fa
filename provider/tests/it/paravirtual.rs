//! Tests of Supervisor mode as a whole: from join to deletion, in each instances mode, and as a
//! process with mounted files.

use std::{path::Path, time::Duration};

use provider::{Config, Deps, InstancesMode, Options, SupervisorLink, SupervisorTuning, run};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::Cluster,
    process::{Process, kubeconfig, serve_cluster, serve_supervisor},
    supervisor::{Supervisor, object},
};

const SECOND: Duration = Duration::from_secs(1);

/// Starts a provider, which runs until the returned guard is dropped.
fn start(
    supervisor: &Supervisor,
    cluster: &Cluster,
    mode: InstancesMode,
) -> tokio_util::sync::DropGuard {
    let tuning = SupervisorTuning { mode, ..SupervisorTuning::default() };
    let options = Options { supervisor: Some(tuning), ..Options::default() };
    let link = SupervisorLink { client: supervisor.client(), namespace: "dev".to_owned() };
    let stop = CancellationToken::new();
    let deps =
        Deps { supervisor: Some(link), seed: 7, stop: stop.clone(), ..Deps::new(cluster.client()) };
    let running = run(Config::without_vcenters(), options, deps);
    tokio::spawn(async move { running.await.unwrap() });
    stop.drop_guard()
}

/// Lets the provider initialize a node in this instances mode, and returns the Node without its
/// version.
async fn joined(mode: InstancesMode) -> serde_json::Value {
    let (supervisor, cluster) = (Supervisor::new(), Cluster::new());
    supervisor.put(object("node-1", "4215F0DE-1b2c-4d3e-9f00-0a0b0c0d0e0f", "10.0.0.1"));
    cluster.join("node-1", "");
    let _running = start(&supervisor, &cluster, mode);
    sleep(5 * SECOND).await;
    let mut node = cluster.node("node-1").unwrap();
    node["metadata"]["resourceVersion"].take();
    node
}

#[tokio::test(start_paused = true)]
async fn a_node_is_written_the_same_in_every_instances_mode() {
    let node = joined(InstancesMode::V1).await;
    assert_eq!(node["spec"]["providerID"], "vsphere://4215F0DE-1b2c-4d3e-9f00-0a0b0c0d0e0f");
    assert_eq!(node["spec"]["taints"], json!(null));
    assert_eq!(
        node["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": ""}])
    );
    let labels = json!({
        "failure-domain.beta.kubernetes.io/zone": "zone-a",
        "topology.kubernetes.io/zone": "zone-a",
    });
    assert_eq!(node["metadata"]["labels"], labels);
    assert_eq!(node["metadata"]["annotations"], json!(null));
    for mode in [InstancesMode::Auto, InstancesMode::Watch, InstancesMode::Poll] {
        assert_eq!(joined(mode).await, node, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_follows_its_machine_and_is_deleted_with_it() {
    let (supervisor, cluster) = (Supervisor::new(), Cluster::new());
    for i in 1..=3 {
        supervisor.put(object(&format!("node-{i}"), &format!("ab-{i}"), &format!("10.0.0.{i}")));
        cluster.join(&format!("node-{i}"), "");
    }
    let _running = start(&supervisor, &cluster, InstancesMode::Auto);
    sleep(5 * SECOND).await;
    assert_eq!(supervisor.take_calls(), ["LIST", "WATCH"]);
    // The address of a machine changes.
    supervisor.put(object("node-2", "ab-2", "10.0.0.22"));
    sleep(2 * SECOND).await;
    assert_eq!(cluster.node("node-2").unwrap()["status"]["addresses"][0]["address"], "10.0.0.22");
    // The machine loses its addresses, and the node keeps its old ones.
    supervisor.put(object("node-2", "ab-2", ""));
    sleep(600 * SECOND).await;
    assert_eq!(cluster.node("node-2").unwrap()["status"]["addresses"][0]["address"], "10.0.0.22");
    // A node is not ready while its machine exists.
    cluster.set_ready("node-1", false);
    sleep(20 * SECOND).await;
    assert_eq!(cluster.n_nodes(), 3);
    supervisor.take_calls();
    supervisor.delete("node-1");
    sleep(6 * SECOND).await;
    assert!(cluster.node("node-1").is_none(), "the Node of a machine that is gone stays");
    let mut calls = supervisor.take_calls();
    // The provider may open its watch again at any time.
    calls.retain(|call| call != "WATCH");
    assert_eq!(calls, ["LIST", "GET node-1"], "the proof is one list and one read");
    assert_eq!(cluster.n_nodes(), 2);
}

/// Writes the files that are mounted for the Supervisor, and an empty `vsphere.conf`, into a
/// directory.
pub(crate) fn mount(directory: &Path, ca: &str, token: &str) {
    for (name, content) in [
        ("token", token),
        ("ca.crt", ca),
        ("namespace", "dev\n"),
        ("vsphere.conf", ""),
        ("ownerref.json", r#"{"apiVersion":"v1","kind":"Cluster","name":"tkc1","uid":"u"}"#),
    ] {
        std::fs::write(directory.join(name), content).unwrap();
    }
}

pub(crate) fn arguments(directory: &Path, supervisor_port: u16) -> Vec<String> {
    let path = |name: &str| directory.join(name).display().to_string();
    vec![
        "--cloud-provider=vsphere-paravirtual".to_owned(),
        format!("--cloud-config={}", path("vsphere.conf")),
        format!("--kubeconfig={}", path("kubeconfig")),
        format!("--supervisor-credentials-dir={}", directory.display()),
        format!("--supervisor-owner-ref={}", path("ownerref.json")),
        format!("--supervisor-server=https://127.0.0.1:{supervisor_port}"),
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
        "--v=4".to_owned(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_finds_its_supervisor_through_files_and_follows_its_token() {
    let (supervisor, cluster) = (Supervisor::new(), Cluster::new());
    supervisor.accept("one");
    supervisor.put(object("node-1", "ab-1", "10.0.0.1"));
    cluster.join("node-1", "");
    let (supervisor_port, ca) = serve_supervisor(supervisor.clone()).await;
    let cluster_port = serve_cluster(cluster.clone()).await;
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_owned();
    mount(&at, &ca, "one\n");
    let config = kubeconfig(&format!("http://127.0.0.1:{cluster_port}"));
    std::fs::write(at.join("kubeconfig"), config).unwrap();
    let ended = tokio::task::spawn_blocking(move || {
        let mut process = Process::start(&arguments(&at, supervisor_port));
        process.until("ignoring the blanks around \"dev\"");
        process.until("initialized");
        // The file gets a new token, and the old one is revoked at once: the Supervisor refuses the
        // next call, which is about a node without a machine.
        std::fs::write(at.join("token"), "two\n").unwrap();
        supervisor.accept("two");
        cluster.join("node-2", "");
        process.until("refused the token");
        supervisor.put(object("node-2", "ab-2", "10.0.0.2"));
        process.until("initialized");
        // The provider reads the file at most once per second, so the new token may come only after
        // a few refusals.
        assert!((1..=3).contains(&supervisor.n_refused()), "{}", supervisor.n_refused());
        // A change of the namespace requires a restart.
        std::fs::write(at.join("namespace"), "other").unwrap();
        process.until("stopped so that a restart uses the new content");
        process.child.wait().unwrap().code()
    });
    assert_eq!(ended.await.unwrap(), Some(1));
}

#[test]
fn an_invalid_mounted_file_is_named_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let mut seen = String::new();
    for (name, content) in [
        ("token", None),
        ("token", Some("hunter2 hunter2")),
        ("ca.crt", Some("hunter2")),
        ("namespace", Some("Dev")),
        ("namespace", None),
        ("ownerref.json", Some("[]")),
        ("vsphere.conf", Some("hunter2: [")),
    ] {
        mount(at, &made.cert.pem(), "one");
        std::fs::write(at.join("kubeconfig"), kubeconfig("http://127.0.0.1:9")).unwrap();
        match content {
            Some(content) => std::fs::write(at.join(name), content).unwrap(),
            None => std::fs::remove_file(at.join(name)).unwrap(),
        }
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_provider"));
        let output = command.args(arguments(at, 9)).env_clear().output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(!said.contains("hunter2"), "{name}: {said}");
        let said = said.lines().find(|line| line.starts_with("provider: ")).unwrap().to_owned();
        seen.push_str(&format!("{said}\n"));
    }
    insta::assert_snapshot!(seen.replace(&at.display().to_string(), "DIR"), @r#"
    provider: DIR/token: cannot be read: No such file or directory (os error 2); mount the Supervisor's credentials there, or name their directory with --supervisor-credentials-dir
    provider: DIR/token: the token for the Supervisor contains a blank, a control character or a non-ASCII character; mount the Supervisor's credentials there, or name their directory with --supervisor-credentials-dir
    provider: DIR/ca.crt: holds no certificate; give a PEM file with the root certificates of the Supervisor
    provider: DIR/namespace: "Dev" is not the name of a namespace; write the name of the Supervisor namespace there, and nothing else
    provider: DIR/namespace: cannot be read: No such file or directory (os error 2); mount the Supervisor's credentials there, or name their directory with --supervisor-credentials-dir
    provider: DIR/ownerref.json: is not the JSON of one owner reference: the JSON is not an object; mount the owner reference of the cluster there, or name its file with --supervisor-owner-ref
    provider: DIR/vsphere.conf: the file is not valid YAML: error: line 1 column 10: unclosed bracket '['; correct the syntax at this position
    "#);
}
