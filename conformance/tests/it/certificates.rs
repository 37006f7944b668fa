//! Tests SESS-010 with certificates: our provider and a sim use TLS over loopback, on the real
//! clock.
//!
//! In virtual time, provider and sim connect without TLS, so a test there has no certificate to
//! change.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use conformance::judge::{NodeFacts, facts};
use provider::{Clock, Config, Deps, Options, RunError, TlsTrust, Transport, UnknownKeys};
use sim::ledger::Record;
use sim::tls::Authority;
use sim::world::objects::Key;
use sim::world::{Command, PROVIDER_USER, Timing, Topology};
use sim::{Class, Endpoint, ListenOptions, Sim};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;

/// Timeout of each wait; long enough for a busy computer.
const PATIENCE: Duration = Duration::from_secs(60);
const NODE: &str = "node-0001";

/// The provider's log, which wakes waiters when it grows.
#[derive(Clone, Debug)]
struct Log(Arc<watch::Sender<String>>);

impl Log {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(String::new())))
    }

    fn count(&self, text: &str) -> usize {
        self.0.borrow().matches(text).count()
    }

    /// Waits until `text` was logged `n` more times.
    async fn more(&self, text: &str, n: usize) {
        let wanted = self.count(text) + n;
        let mut log = self.0.subscribe();
        let seen = log.wait_for(|log| log.matches(text).count() >= wanted);
        let seen = tokio::time::timeout(PATIENCE, seen).await.map(|_| ());
        assert!(seen.is_ok(), "{text:?} was not logged {n} times:\n{}", *self.0.borrow());
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_modify(|log| log.push_str(&String::from_utf8_lossy(bytes)));
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

/// Number of machines; several, so that a second lookup does not hide the reason why the first one
/// failed.
const MACHINES: u32 = 3;

/// A listening sim and the log of the provider.
struct Stage {
    sim: Sim,
    at: Endpoint,
    log: Log,
}

/// A running provider.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap();
    }
}

impl Stage {
    async fn new(log: Log) -> Self {
        let topology =
            Topology { timing: Timing::immediate(), ..Topology::zones(1).machines(MACHINES) };
        let sim = Sim::builder().topology(topology).start();
        let listening = sim.listen(ListenOptions::default()).await.unwrap();
        let at = listening.vcenters["vc0"].clone();
        Self { sim, at, log }
    }

    fn thumbprint(&self) -> String {
        self.at.thumbprints().unwrap().sha256
    }

    /// Starts our provider with its own HTTPS transport to vCenter and an in-process client for the
    /// cluster.
    fn start(&self, trust: &TlsTrust) -> Running {
        let password = self.sim.password("vc0", PROVIDER_USER).unwrap();
        let text = format!(
            "global:\n  insecureFlag: true\nvcenter:\n  vc0:\n    server: {}\n    port: {}\n    \
             datacenters: [DC0]\n    user: {PROVIDER_USER}\n    password: {}\n",
            self.at.address.ip(),
            self.at.address.port(),
            password.expose(),
        );
        let (config, _) = Config::parse("vsphere.conf", &text, UnknownKeys::Refuse).unwrap();
        let transport: Transport = provider::https(&config.vcenters[0].endpoint, trust).unwrap();
        let stop = CancellationToken::new();
        let deps = Deps {
            connect: Arc::new(move |_| Ok(transport.clone())),
            clock: Clock::starting_at(
                self.sim.world().now().timestamp(self.sim.world().clock().epoch()),
            ),
            stop: stop.clone(),
            ..Deps::new(kube::Client::new(self.sim.cluster().service("provider"), "default"))
        };
        Running { stop, task: tokio::spawn(provider::run(config, Options::default(), deps)) }
    }

    fn node(&self) -> NodeFacts {
        self.sim.world().read(|world| facts(world.cluster.get(&Key::node(NODE)).unwrap()))
    }

    /// Waits until the node satisfies `wanted`.
    async fn until(&self, wanted: impl Fn(&NodeFacts) -> bool) {
        let mut changes = self.sim.world().changes();
        let seen = async {
            loop {
                changes.mark_unchanged();
                if wanted(&self.node()) {
                    return;
                }
                changes.changed().await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        assert!(seen.is_ok(), "{:?}\n{}", self.node(), *self.log.0.borrow());
    }

    /// Changes the certificate, breaks every connection, and changes the machine's address. Returns
    /// the position in the ledger from which every call comes over a new connection.
    async fn swap(&self) -> u64 {
        self.sim.apply(Command::SwapCertificate { vcenter: None }).unwrap();
        let lost = self.log.more("waiting for changes of machines at vCenter failed; retrying", 1);
        let stop = async { self.sim.apply(Command::StopVCenter { vcenter: None }).unwrap() };
        tokio::join!(lost, stop);
        let from = self.sim.ledger().next_seq();
        let addresses = vec![vec![std::net::Ipv4Addr::new(10, 6, 0, 1).into()]];
        self.sim.apply(Command::SetAddresses { machine: NODE.into(), addresses }).unwrap();
        self.sim.apply(Command::StartVCenter { vcenter: None }).unwrap();
        from
    }

    fn calls(&self, from: u64) -> Vec<Record> {
        let mut calls = self.sim.ledger().since(from);
        calls.retain(|it| it.is_vcenter_call());
        calls
    }

    fn writes(&self, from: u64) -> Vec<Record> {
        let mut writes = self.sim.ledger().since(from);
        writes.retain(|it| {
            it.is_cluster_call() && it.class == Some(Class::Write) && it.op.contains("nodes")
        });
        writes
    }
}

fn pinned(thumbprint: &str) -> TlsTrust {
    TlsTrust { thumbprint: Some(thumbprint.to_owned()), ..TlsTrust::default() }
}

fn on_the_real_clock(test: impl AsyncFnOnce(Stage)) {
    let log = Log::new();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async { test(Stage::new(log).await).await });
    });
}

/// Error of the certificate verifier in the provider's log.
const MISMATCH: &str = "thumbprint does not match";

#[test]
fn a_changed_certificate_stops_all_calls_until_the_provider_trusts_it() {
    on_the_real_clock(async |stage| {
        let first = stage.start(&pinned(&stage.thumbprint()));
        stage.log.more("node initialized", MACHINES as usize).await;
        let before = stage.node();

        let from = stage.swap().await;
        stage.log.more(MISMATCH, 3).await;
        first.end().await;
        assert_eq!(
            stage.calls(from),
            Vec::new(),
            "the provider sent calls over an untrusted connection"
        );
        assert_eq!(stage.writes(from), Vec::new());
        let now = stage.node();
        assert_eq!((now.addresses, now.taints), (before.addresses, before.taints));

        let second = stage.start(&pinned(&stage.thumbprint()));
        stage.until(|node| node.ips().any(|ip| ip == "10.6.0.1")).await;
        second.end().await;
        assert!(stage.calls(from).iter().any(|call| call.op == "Login"));
    });
}

#[test]
fn a_server_with_an_untrusted_certificate_receives_no_call() {
    on_the_real_clock(async |stage| {
        let other = Authority::generate().unwrap();
        let roots_pem = other.pem().as_bytes().to_vec();
        let running = stage.start(&TlsTrust { roots_pem, ..TlsTrust::default() });
        stage.log.more("invalid peer certificate", 3).await;
        running.end().await;
        assert_eq!(stage.calls(0), Vec::new(), "the provider sent calls to an untrusted server");
        assert!(stage.node().uninitialized);
    });
}

/// Proves that the other tests could fail: a provider that trusts every server does send its
/// password.
#[test]
fn a_provider_that_trusts_every_server_logs_in_after_a_certificate_change() {
    on_the_real_clock(async |stage| {
        let running = stage.start(&TlsTrust { insecure: true, ..TlsTrust::default() });
        stage.until(|node| !node.uninitialized).await;
        let from = stage.swap().await;
        stage.until(|node| node.ips().any(|ip| ip == "10.6.0.1")).await;
        running.end().await;
        assert!(stage.calls(from).iter().any(|call| call.op == "Login"));
    });
}
