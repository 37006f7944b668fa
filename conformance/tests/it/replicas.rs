//! Tests replicas that are processes: labels in the ledger, elections, signals, and two leaders.
//!
//! The provider is a test double: this test program starts itself again with one test that does
//! nothing otherwise. The double elects a leader by a lease of two seconds, and the leader keeps
//! labeling a node.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conformance::foreign::command::{Surroundings, setup};
use conformance::foreign::{Settings, Subject};
use conformance::judge::{self, Invariant, Violation};
use conformance::lab::Run;
use conformance::scenario::{Act, Scenario};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use sim::ledger::Kind;
use sim::world::Topology;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

const NAME: &str = "cloud-controller-manager";
const LEASE: Duration = Duration::from_secs(2);
/// Maximum time between a renewal and a write of the leader.
const SURE: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(200);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_processes_hand_the_lease_over_and_only_the_leader_writes() {
    let scenario = two_replicas(ms(12_500))
        .at(ms(1000), Act::CrashLeader)
        .at(ms(4500), Act::StartAll)
        .at(ms(5000), Act::SuspendLeader)
        .at(ms(8500), Act::ResumeAll)
        .at(ms(10_500), Act::StopLeader);
    let run = play("elect", "$(leaderElect) $(replica)", &scenario).await;
    let notes: Vec<&str> = notes(&run).collect();
    assert!(notes.iter().all(|it| !it.starts_with("refused")), "{notes:#?}\n{}", run.logs);
    let writers: BTreeSet<&str> = run
        .calls()
        .filter(|it| it.op == "patch nodes")
        .map(|it| it.client.client.as_str())
        .collect();
    assert_eq!(writers, ["provider", "provider-1"].into(), "{notes:#?}");
    assert_eq!(judge::takeovers(&run), 3, "{notes:#?}\n{}", run.logs);
    assert_eq!(two_leaders(&run), [], "{notes:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_elect_no_leader_break_invariant_61() {
    let run = play("anarchy", "false $(replica)", &two_replicas(ms(2000))).await;
    let violations = two_leaders(&run);
    let by = |client: &str| violations.iter().any(|it| it.text.starts_with(client));
    assert!(by("provider writes") && by("provider-1 writes"), "{violations:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_with_one_identity_show_nothing_about_their_leader() {
    let run = play("namesakes", "true 0", &two_replicas(ms(2000))).await;
    let wanted = "refused: two replicas have the identity \"double-0\"";
    assert!(notes(&run).any(|it| it.starts_with(wanted)), "{:?}", notes(&run).collect::<Vec<_>>());
    assert_eq!(two_leaders(&run), []);
}

/// The double sends its port to the test, which binds the first port that it receives. The double
/// then ends, like a provider that cannot listen.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_port_another_program_takes_starts_again_with_another_port() {
    let desk = TcpListener::bind("127.0.0.1:0").unwrap();
    let how = format!("false 0 $(port) {}", desk.local_addr().unwrap());
    let (sender, ports) = std::sync::mpsc::channel();
    // The thread ends with this test program, so that a double that does not start a second time
    // cannot block the test.
    std::thread::spawn(move || {
        let mut other_program = None;
        for stream in desk.incoming() {
            let mut stream = stream.unwrap();
            let mut port = [0; 2];
            stream.read_exact(&mut port).unwrap();
            let port = u16::from_be_bytes(port);
            let is_taken = other_program.is_none();
            other_program.get_or_insert_with(|| TcpListener::bind(("127.0.0.1", port)).unwrap());
            sender.send(port).unwrap();
            stream.write_all(&[u8::from(!is_taken)]).unwrap();
        }
    });
    let scenario = Scenario::new("", Topology::zones(1).machines(1), ms(1000));
    let run = play("port", &how, &scenario).await;
    let ports: Vec<u16> = ports.try_iter().collect();
    assert!(ports.len() == 2 && ports[0] != ports[1], "{ports:?}");
    let said: Vec<&str> = notes(&run).collect();
    let wanted = ["replica 0 starts", "replica 0 is told to stop", "replica 0 has ended: stopped"];
    assert_eq!(said, wanted);
    assert!(run.calls().any(|it| it.op == "patch nodes"), "{said:#?}");
}

fn two_replicas(horizon: Duration) -> Scenario {
    Scenario::new("", Topology::zones(1).machines(1), horizon).with_provider(|it| it.replicas = 2)
}

fn notes(run: &Run) -> impl Iterator<Item = &str> {
    run.ledger.iter().filter(|it| it.kind == Kind::Note).map(|it| it.op.as_str())
}

fn two_leaders(run: &Run) -> Vec<Violation> {
    let mut found = judge::safety(run);
    found.retain(|it| it.invariant == Invariant::OnlyLeaderWrites);
    found
}

/// Plays a scenario with the double. `how` contains the words that the double gets: whether it
/// elects a leader, its number and, if wanted, its port and the address to which it sends the port.
async fn play(name: &str, how: &str, scenario: &Scenario) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("double.yaml");
    let program = std::env::current_exe().unwrap();
    let manifest = format!(
        "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {{name: {name}}}\nspec:\n  run:\n    process:\n      \
         command: [{program:?}, --exact, \"replicas::double\", --nocapture]\n      \
         env: {{DOUBLE: \"{how}\", DOUBLE_KUBECONFIG: $(kubeconfig)}}\n"
    );
    std::fs::write(&file, manifest).unwrap();
    let surroundings = Surroundings {
        now: sim::VIRTUAL_EPOCH,
        variables: [].into(),
        beside: None,
        launcher: env!("CARGO_BIN_EXE_conformance").into(),
        temporary: dir.path().to_owned(),
    };
    let setup = setup(file.to_str().unwrap(), None, &surroundings).unwrap();
    let settings = Settings {
        seed: 0,
        jobs: 1,
        compress: 10,
        longest: Duration::MAX,
        retries: 0,
        now: surroundings.now,
    };
    let subject = Subject::new(Arc::new(setup), settings);
    subject.witness(name, scenario).await.unwrap().0
}

/// Runs the double. Without its environment variables, as in a run of all tests, it does nothing.
#[test]
fn double() {
    let [how, kubeconfig] = ["DOUBLE", "DOUBLE_KUBECONFIG"].map(|it| std::env::var(it).ok());
    let (Some(how), Some(kubeconfig)) = (how, kubeconfig) else { return };
    let words: Vec<&str> = how.split(' ').collect();
    if let [_, _, port, desk] = words[..] {
        let mut stream = TcpStream::connect(desk).unwrap();
        stream.write_all(&port.parse::<u16>().unwrap().to_be_bytes()).unwrap();
        let mut may_run = [0];
        stream.read_exact(&mut may_run).unwrap();
        assert_eq!(may_run, [1], "the port is taken");
    }
    let [elects, replica] = [words[0], words[1]];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let double = Double::new(Path::new(&kubeconfig), replica).await;
        double.run(elects == "true").await;
    });
}

struct Double {
    identity: String,
    leases: Api<Lease>,
    nodes: Api<Node>,
    begin: Instant,
}

/// Version of the lease as last read, and the time at which this version was first read.
type Seen = Option<(Option<String>, Instant)>;

impl Double {
    async fn new(kubeconfig: &Path, replica: &str) -> Self {
        let (config, options) =
            (Kubeconfig::read_from(kubeconfig).unwrap(), KubeConfigOptions::default());
        let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let leases = Api::namespaced(client.clone(), "kube-system");
        let identity = format!("double-{replica}");
        Self { identity, leases, nodes: Api::all(client), begin: Instant::now() }
    }

    /// Labels a node every [`RETRY`] until SIGTERM, then gives the lease up. If `elects` is true,
    /// labels the node only while the double holds the lease.
    async fn run(&self, elects: bool) {
        let mut stop = signal(SignalKind::terminate()).unwrap();
        let mut ticks = tokio::time::interval(RETRY);
        let mut seen: Seen = None;
        for n in 0_u64.. {
            tokio::select! {
                biased;
                _ = stop.recv() => return self.release().await,
                _ = ticks.tick() => {}
            }
            let begin = Instant::now();
            if elects && !self.holds(&mut seen).await {
                continue;
            }
            if begin.elapsed() < SURE {
                let labels = serde_json::json!({"metadata": {"labels": {"double": n.to_string()}}});
                let patch = Patch::Merge(labels);
                let _ = self.nodes.patch("node-0001", &PatchParams::default(), &patch).await;
            }
        }
    }

    /// Takes or renews the lease; true if the double holds it then. Notes in `seen` the version of
    /// the lease that it read.
    async fn holds(&self, seen: &mut Seen) -> bool {
        let Ok(lease) = self.leases.get_opt(NAME).await else { return false };
        let parameters = PostParams::default();
        let Some(lease) = lease else {
            return self
                .leases
                .create(&parameters, &self.lease(&self.identity, None))
                .await
                .is_ok();
        };
        let version = lease.metadata.resource_version.clone();
        if seen.as_ref().is_none_or(|(it, _)| *it != version) {
            *seen = Some((version.clone(), Instant::now()));
        }
        let holder = lease.spec.and_then(|it| it.holder_identity).unwrap_or_default();
        let has_run_out = seen.as_ref().is_some_and(|(_, since)| since.elapsed() > LEASE);
        if !holder.is_empty() && holder != self.identity && !has_run_out {
            return false;
        }
        let wanted = self.lease(&self.identity, version);
        self.leases.replace(NAME, &parameters, &wanted).await.is_ok()
    }

    /// Gives the lease up.
    async fn release(&self) {
        let Ok(lease) = self.leases.get(NAME).await else { return };
        let free = self.lease("", lease.metadata.resource_version);
        let _ = self.leases.replace(NAME, &PostParams::default(), &free).await;
    }

    fn lease(&self, holder: &str, resource_version: Option<String>) -> Lease {
        let name = Some(NAME.to_owned());
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(2),
            renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH + self.begin.elapsed())),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { name, resource_version, ..ObjectMeta::default() };
        Lease { metadata, spec: Some(spec) }
    }
}
