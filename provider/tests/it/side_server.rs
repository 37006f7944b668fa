//! Tests of a server that runs beside the controllers: it runs while its replica leads, and only then.

use std::{
    process::Command,
    sync::{Arc, Mutex},
};

use futures::FutureExt as _;
use provider::{Clock, LeaderElection, Options, RunError, SideServer, SteppedTime, Telemetry};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};

use crate::{
    cluster::Cluster,
    process::{Lab as ProcessLab, Process},
    scenarios::{Lab, PLAIN, SECOND, start, start_edited},
    vcenter::Vcenter,
};

/// Steps of a server, in order.
type Log = Arc<Mutex<Vec<&'static str>>>;

fn elected() -> Options {
    Options { leader_election: Some(LeaderElection::default()), ..Options::default() }
}

fn log(of: &Log) -> Vec<&'static str> {
    of.lock().unwrap().clone()
}

/// A server that takes two seconds to answer its last request.
fn server(log: &Log) -> SideServer {
    let log = Arc::clone(log);
    Arc::new(move |leadership| {
        let log = Arc::clone(&log);
        async move {
            log.lock().unwrap().push("started");
            leadership.stop().cancelled().await;
            sleep(2 * SECOND).await;
            log.lock().unwrap().push("stopped");
            Ok(())
        }
        .boxed()
    })
}

fn replica(cluster: &Cluster, name: &'static str, server: SideServer) -> Lab {
    start_edited(&[&Vcenter::new()], cluster, PLAIN, elected(), |deps| {
        deps.identity = name.to_owned();
        deps.side_server = Some(server);
    })
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_serves_and_it_ends_before_another_replica_leads() {
    let cluster = Cluster::new();
    let (first, second) = (Log::default(), Log::default());
    let leader = replica(&cluster, "a", server(&first));
    sleep(SECOND).await;
    let standby = replica(&cluster, "b", server(&second));
    sleep(60 * SECOND).await;
    assert_eq!((log(&first), log(&second)), (vec!["started"], vec![]));
    leader.stop.cancel();
    sleep(SECOND).await;
    assert_eq!((log(&first), log(&second)), (vec!["started"], vec![]));
    leader.ended().await.unwrap();
    assert_eq!((log(&first), log(&second)), (vec!["started", "stopped"], vec![]));
    sleep(5 * SECOND).await;
    assert_eq!(log(&second), ["started"]);
    standby.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_ends_at_once_when_its_replica_loses_the_lease() {
    let (cluster, seen) = (Cluster::new(), Log::default());
    let leader = replica(&cluster, "a", server(&seen));
    sleep(5 * SECOND).await;
    cluster.usurp_lease("c");
    let ended = leader.ended().await;
    assert!(matches!(ended, Err(RunError::LeadershipLost)), "{ended:?}");
    assert_eq!(log(&seen), ["started"], "the server worked on after the loss");
}

/// A server that sends an event each 100 ms, and notes which were not sent.
fn sender(cluster: &Cluster, log: &Log) -> SideServer {
    let (cluster, log) = (cluster.clone(), Log::clone(log));
    Arc::new(move |leadership| {
        let (client, log) = (leadership.guard(cluster.client()), Log::clone(&log));
        async move {
            loop {
                let event = br#"{"metadata": {"name": "e"}}"#.to_vec();
                let request = http::Request::post("/api/v1/namespaces/default/events");
                let outcome = match client.send(request.body(event.into()).unwrap()).await {
                    Ok(_) => "sent",
                    Err(err) if format!("{err:?}").contains("NotLeading") => "not sent",
                    Err(err) => panic!("{err:?}"),
                };
                log.lock().unwrap().push(outcome);
                let read = http::Request::get("/api/v1/nodes").body(Vec::new().into()).unwrap();
                client.send(read).await.unwrap();
                sleep(SECOND / 10).await;
            }
        }
        .boxed()
    })
}

/// The process wakes after the end of its lease. Its timers are due in any order, so requests of the
/// server may come before the loss is noticed.
#[tokio::test(start_paused = true)]
async fn a_replica_that_wakes_after_its_lease_sends_no_write_of_its_server() {
    let (cluster, seen) = (Cluster::new(), Log::default());
    let time = Arc::new(SteppedTime::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
    let server = sender(&cluster, &seen);
    let lab = start_edited(&[&Vcenter::new()], &cluster, PLAIN, elected(), |deps| {
        deps.side_server = Some(server);
        deps.clock = Clock::new(time.clone());
    });
    sleep(5 * SECOND + SECOND / 20).await;
    assert!(log(&seen).iter().all(|it| *it == "sent") && log(&seen).len() >= 50);
    seen.lock().unwrap().clear();
    time.suspend(60 * SECOND);
    sleep(SECOND / 2).await;
    assert_eq!(log(&seen), ["not sent"; 5]);
    drop(lab);
}

#[tokio::test(start_paused = true)]
async fn the_run_ends_when_its_server_fails_and_says_why() {
    let failing: SideServer = Arc::new(|_| {
        async {
            sleep(60 * SECOND).await;
            Err("cannot listen on 127.0.0.1:1".to_owned())
        }
        .boxed()
    });
    let cluster = Cluster::new();
    let lab = replica(&cluster, "a", failing);
    sleep(50 * SECOND).await;
    assert!(!lab.running.is_finished());
    let ended = lab.ended().await.unwrap_err();
    assert_eq!(ended.to_string(), "cannot listen on 127.0.0.1:1");
    assert_eq!(
        cluster.lease_holder().as_deref(),
        Some(""),
        "another replica must wait for the lease"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_starts_at_once_without_leader_election() {
    let (vcenter, cluster, seen) = (Vcenter::new(), Cluster::new(), Log::default());
    let lab = start_edited(&[&vcenter], &cluster, PLAIN, Options::default(), |deps| {
        deps.side_server = Some(server(&seen));
    });
    sleep(SECOND).await;
    assert_eq!(log(&seen), ["started"]);
    lab.finish().await;
    assert_eq!(log(&seen), ["started", "stopped"]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_autoscaler_has_no_check_of_one() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    let lab = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(SECOND).await;
    assert!(lab.telemetry.readiness().iter().all(|(name, _)| name != "autoscaler"));
    assert!(!lab.telemetry.metrics().contains("vsphere_autoscaler"));
    assert!(Telemetry::with_autoscaler().metrics().contains("vsphere_autoscaler"));
    lab.finish().await;
}

/// Returns true if a server of HTTP/2 answers at this address.
async fn answers(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&empty_settings).await.unwrap();
    let mut head = [0; 9];
    // The fourth byte is the kind of the frame; 4 is SETTINGS.
    stream.read_exact(&mut head).await.is_ok() && head[3] == 4
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_serves_autoscalers_beside_its_controllers_until_it_stops() {
    let lab = ProcessLab::new().await;
    let mut arguments = lab.with_kubeconfig();
    let kubeconfig = format!("--management-kubeconfig={}", lab.path("kubeconfig"));
    for flag in ["--backend=cluster-api", &kubeconfig, "--listen=127.0.0.1:0"] {
        arguments.push(format!("--autoscaler={flag}"));
    }
    let process = tokio::task::spawn_blocking(move || {
        let process = Process::start(&arguments);
        // Both lines come in any order.
        let line = process.until("serving autoscalers WITHOUT TLS");
        process.until("initialized");
        (process, line)
    });
    let (mut process, line) = process.await.unwrap();
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(answers(address).await, "{line}");
    let id = process.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let code = tokio::task::spawn_blocking(move || process.child.wait().unwrap().code());
    assert_eq!(code.await.unwrap(), Some(0));
    assert!(!answers(address).await);
    lab.assert_logged_out();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_files_of_the_server_are_refused_before_anything_starts() {
    let lab = ProcessLab::new().await;
    lab.write("wrong.yaml", "groups: [{name: a, max: 1, speed: 3}]");
    let clone = "{datacenter: DC0, template: ubuntu, folder: /DC0/vm, resourcePool: C0/Resources, \
                 tag: nodes/autoscaled, bootstrap: {file: user-data}}";
    lab.write("right.yaml", &format!("groups: [{{name: a, max: 1, clone: {clone}}}]"));
    for (flags, wanted) in [
        (&["--groups=/nowhere/groups.yaml"][..], "--autoscaler: --groups /nowhere/groups.yaml: "),
        (&["--groups=wrong.yaml"], "speed"),
        (
            &["--groups=right.yaml", "--journal-kubeconfig=/nowhere/k"],
            "--autoscaler: --journal-kubeconfig /nowhere/k: ",
        ),
        (
            &["--groups=right.yaml", "--cloud-config=/nowhere/c"],
            "--autoscaler: --cloud-config /nowhere/c: ",
        ),
        (
            &[
                "--groups=right.yaml",
                "--tls-cert-file=/no/c",
                "--tls-private-key-file=/no/k",
                "--client-ca-file=/no/a",
            ],
            "--tls-cert-file /no/c: ",
        ),
    ] {
        let mut arguments = lab.with_kubeconfig();
        let of_backend = ["--backend=vcenter", "--journal=/nowhere/journal"];
        for flag in of_backend.iter().chain(flags) {
            let flag = flag.replace("=right", &format!("={}/right", lab.path(".")));
            let flag = flag.replace("=wrong", &format!("={}/wrong", lab.path(".")));
            arguments.push(format!("--autoscaler={flag}"));
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        let output = command.args(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}
