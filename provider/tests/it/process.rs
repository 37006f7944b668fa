//! Tests of the provider as a process.

use std::{
    convert::Infallible,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::{cluster::Cluster, scenarios, supervisor::Supervisor, vcenter::Vcenter};

/// A running provider process. A drop of this value kills the process.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn start(arguments: &[String]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_provider")).args(arguments))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let log = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// Reads the log up to a line that contains `words` and returns that line; waits up to 60 s for
    /// each line. Panics if the log has no such line.
    pub(crate) fn until(&self, words: &str) -> String {
        let mut seen = String::new();
        loop {
            match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => seen.push_str(&format!("{line}\n")),
                Err(_) => panic!("{words:?} is not in the log:\n{seen}"),
            }
        }
    }
}

pub(crate) fn kubeconfig(server: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: a, users: [{{name: a, user: {{}}}}], \
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         clusters: [{{name: a, cluster: {{server: '{server}'}}}}]}}"
    )
}

#[test]
fn a_changed_configuration_ends_the_process_unless_it_is_unusable() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let config = |password: &str| {
        format!(
            "global: {{server: vc.invalid, insecureFlag: true, user: u, password: {password}}}\n"
        )
    };
    std::fs::write(path("vsphere.conf"), config("hunter2")).unwrap();
    // The API server does not answer, so the process waits for the lease.
    std::fs::write(path("kubeconfig"), kubeconfig("http://127.0.0.1:9")).unwrap();
    let mut process = Process::start(&[
        format!("--cloud-config={}", path("vsphere.conf").display()),
        format!("--kubeconfig={}", path("kubeconfig").display()),
        "--secure-port=0".to_owned(),
    ]);
    process.until("waiting for the lease");
    std::fs::write(path("vsphere.conf"), "global: {server: vc.invalid, user: u}\n").unwrap();
    let refused = process.until("keeping the old configuration");
    assert!(refused.contains("Password is missing"), "{refused}");
    let with_ca = config("hunter2").replace("insecureFlag: true", "caFile: /nowhere/ca.pem");
    std::fs::write(path("vsphere.conf"), with_ca).unwrap();
    let refused = process.until("keeping the old configuration");
    assert!(refused.contains("/nowhere/ca.pem"), "{refused}");
    // A new file replaces the old one, as in a mounted ConfigMap.
    std::fs::write(path("new"), config("hunter3")).unwrap();
    std::fs::rename(path("new"), path("vsphere.conf")).unwrap();
    process.until("the configuration has changed; stopping");
    let said = process.until("stopped so that a restart uses the new content");
    assert!(said.contains("vsphere.conf has changed"), "{said}");
    assert_eq!(process.child.wait().unwrap().code(), Some(1));
}

#[test]
fn input_that_cannot_be_used_is_named_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let plain = file("plain.conf", scenarios::PLAIN);
    let latin = directory.path().join("latin.conf");
    std::fs::write(&latin, b"global:\n  {server: s, user: u, password: hunter2\xe4}\n").unwrap();
    let config = |name: &str, more: &str| {
        file(name, &format!("global: {{server: vc.invalid, insecureFlag: true, {more}}}\n"))
    };
    let good = file("good", &kubeconfig("http://127.0.0.1:9"));
    let without_roots =
        format!("global: {{server: s, user: u, password: hunter2, caFile: {good}}}\n");
    let cases = [
        ("no configuration", vec!["--cloud-config=/nope/vsphere.conf".to_owned()]),
        ("not UTF-8", vec![format!("--cloud-config={}", latin.display())]),
        (
            "no port",
            vec![format!(
                "--cloud-config={}",
                config("port", "user: u, password: hunter2, port: abc")
            )],
        ),
        (
            "no directory of secrets",
            vec![format!("--cloud-config={}", config("secrets", "secretsDirectory: /nope"))],
        ),
        (
            "no roots",
            vec![format!(
                "--cloud-config={}",
                config("roots", "user: u, password: hunter2, caFile: /nope")
            )],
        ),
        (
            "no certificate among the roots",
            vec![format!("--cloud-config={}", file("pem", &without_roots))],
        ),
        (
            "no thumbprint",
            vec![format!(
                "--cloud-config={}",
                config("thumb", "user: u, password: hunter2, thumbprint: 'AB:CD'")
            )],
        ),
        (
            "two families",
            vec![format!(
                "--cloud-config={}",
                config("dual", "user: u, password: hunter2, ipFamily: [ipv4, ipv6]")
            )],
        ),
        ("no kubeconfig", vec!["--kubeconfig=nope".to_owned()]),
        ("no cluster around it", vec![]),
        (
            "garbage as kubeconfig",
            vec![format!("--kubeconfig={}", file("garbage", "hunter2: [\n"))],
        ),
        ("a token as kubeconfig", vec![format!("--kubeconfig={}", file("token", "hunter2\n"))]),
        (
            "a kubeconfig without contexts",
            vec![format!("--kubeconfig={}", file("bare", "{apiVersion: v1, kind: Config}\n"))],
        ),
        (
            "a kubeconfig that names a lost file",
            vec![format!(
                "--kubeconfig={}",
                file(
                    "lost",
                    &kubeconfig("https://127.0.0.1:9', certificate-authority: '/nope/ca.pem")
                )
            )],
        ),
        (
            "no address of a master",
            vec![format!("--kubeconfig={good}"), "--master=nope:6443".to_owned()],
        ),
    ];
    let mut seen = String::new();
    for (name, arguments) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        command.arg(format!("--cloud-config={plain}")).args(&arguments).arg("--secure-port=0");
        let output = command.env_clear().output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(!said.contains("hunter2"), "{name}: {said}");
        seen.push_str(&format!("--- {name}\n{said}"));
    }
    insta::assert_snapshot!(seen.replace(&directory.path().display().to_string(), "DIR"));
}

#[test]
fn the_log_is_json_with_logging_format_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("vsphere.conf"), scenarios::PLAIN).unwrap();
    std::fs::write(path("kubeconfig"), kubeconfig("http://127.0.0.1:9")).unwrap();
    let process = Process::start(&[
        format!("--cloud-config={}", path("vsphere.conf")),
        format!("--kubeconfig={}", path("kubeconfig")),
        "--secure-port=0".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        "--logging-format=json".to_owned(),
    ]);
    for words in ["--bind-address has no effect with --secure-port=0", "waiting for the lease"] {
        let line: serde_json::Value = serde_json::from_str(&process.until(words)).expect(words);
        assert_eq!(line["level"], "INFO", "{line}");
        assert!(line["fields"]["message"].as_str().is_some_and(|it| it.contains(words)), "{line}");
    }
}

#[test]
fn a_proxy_that_cannot_be_used_is_named_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("vsphere.conf"), scenarios::PLAIN).unwrap();
    std::fs::write(path("kubeconfig"), kubeconfig("http://127.0.0.1:9")).unwrap();
    for variable in ["HTTPS_PROXY", "https_proxy"] {
        let output = Command::new(env!("CARGO_BIN_EXE_provider"))
            .args([
                format!("--cloud-config={}", path("vsphere.conf")),
                "--secure-port=0".to_owned(),
            ])
            .arg(format!("--kubeconfig={}", path("kubeconfig")))
            .env_clear()
            .env(variable, "ftp://u:hunter2@127.0.0.1:9")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{variable}: ")) && !said.contains("hunter2"), "{said}");
    }
}

/// Makes a certificate for loopback that no client trusts by default; returns it in PEM, and a TLS
/// acceptor that serves it.
fn tls() -> (String, tokio_rustls::TlsAcceptor) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (made.cert.pem(), tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Serves a vCenter with a certificate that no client trusts by default; returns the port.
async fn serve_vcenter(vcenter: Vcenter) -> u16 {
    let (_, acceptor) = tls();
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let vcenter = vcenter.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let vcenter = vcenter.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = Full::new(body.collect().await.unwrap().to_bytes());
                    Ok::<_, Infallible>(vcenter.serve(Request::from_parts(parts, body)).await)
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    port
}

/// Serves a Supervisor; returns the port and the certificate, which the client must trust.
pub(crate) async fn serve_supervisor(supervisor: Supervisor) -> (u16, String) {
    let (pem, acceptor) = tls();
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let supervisor = supervisor.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = supervisor.serve(&request.into_parts().0);
                async move { Ok::<_, Infallible>(answer) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    (port, pem)
}

/// Serves a cluster over plain HTTP; returns the port.
pub(crate) async fn serve_cluster(cluster: Cluster) -> u16 {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let cluster = cluster.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let cluster = cluster.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes().to_vec().into();
                    Ok::<_, Infallible>(cluster.serve(Request::from_parts(parts, body)).await)
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    port
}

/// A vCenter and a cluster with one node, and a directory with the configuration files for a
/// process.
pub(crate) struct Lab {
    vcenter: Vcenter,
    cluster: Cluster,
    cluster_address: String,
    directory: tempfile::TempDir,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
        vcenter.add("vm-1", &scenarios::uuid(1), "node-001", Some("10.0.0.1"));
        cluster.join("node-001", &scenarios::swapped(1));
        let vcenter_port = serve_vcenter(vcenter.clone()).await;
        let cluster_port = serve_cluster(cluster.clone()).await;
        let cluster_address = format!("http://127.0.0.1:{cluster_port}");
        let directory = tempfile::tempdir().unwrap();
        let lab = Self { vcenter, cluster, cluster_address, directory };
        lab.write("kubeconfig", &kubeconfig(&lab.cluster_address));
        lab.configure("127.0.0.1", vcenter_port);
        lab
    }

    fn configure(&self, server: &str, port: u16) {
        let text = format!(
            "global: {{server: {server}, port: {port}, insecureFlag: true, user: ccm, password: secret}}\n"
        );
        self.write("vsphere.conf", &text);
    }

    /// Starts a process in whose environment the first of `variables` names the proxy at the port
    /// `proxy`, and the second one names the exceptions from it.
    fn behind(&self, variables: [&str; 2], proxy: u16, exceptions: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        command.args(self.with_kubeconfig()).env_clear();
        command.env(variables[0], format!("http://u:hunter2@127.0.0.1:{proxy}"));
        Process::spawn(command.env(variables[1], exceptions))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The arguments of a process, without the address of the cluster.
    fn arguments(&self) -> Vec<String> {
        let config = format!("--cloud-config={}", self.path("vsphere.conf"));
        let rest = ["--secure-port=0", "--leader-elect=false", "--v=4"].map(str::to_owned);
        std::iter::once(config).chain(rest).collect()
    }

    pub(crate) fn with_kubeconfig(&self) -> Vec<String> {
        let mut arguments = self.arguments();
        arguments.push(format!("--kubeconfig={}", self.path("kubeconfig")));
        arguments
    }

    /// Starts a process, waits until it has initialized the node, runs a script with the process id
    /// in place of `ID`, and returns the exit code of the process; `None` if a signal ended it.
    async fn ended_by(&self, script: &'static str) -> Option<i32> {
        // Tests that run under nohup or in the background of a script ignore signals, and the
        // process would inherit that.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_provider")]);
        let mut process = Process::spawn(command.args(self.with_kubeconfig()));
        let ended = tokio::task::spawn_blocking(move || {
            process.until("initialized");
            let script = script.replace("ID", &process.child.id().to_string());
            assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
            process.child.wait().unwrap().code()
        });
        ended.await.unwrap()
    }

    pub(crate) fn assert_logged_out(&self) {
        assert!(self.vcenter.take_calls().contains_key("Logout"), "no logout");
        assert!(!self.vcenter.has_session());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_signals_at_once_end_the_process_gracefully() {
    let lab = Lab::new().await;
    // As `timeout` and a terminal send them: to the process and to its group.
    let code = lab.ended_by("kill -TERM ID; kill -INT ID; kill -TERM ID").await;
    assert_eq!(code, Some(0));
    lab.assert_logged_out();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_ends_the_process_gracefully() {
    let lab = Lab::new().await;
    assert_eq!(lab.ended_by("kill -HUP ID").await, Some(0));
    lab.assert_logged_out();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_started_with_hangups_ignored_ignores_a_hangup() {
    let lab = Lab::new().await;
    let script = "trap '' HUP; exec \"$@\"";
    let mut words =
        ["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_provider")].map(str::to_owned).to_vec();
    words.extend(lab.with_kubeconfig());
    let mut process = Process::spawn(Command::new(&words[0]).args(&words[1..]));
    let ended = tokio::task::spawn_blocking(move || {
        process.until("initialized");
        let script = "kill -HUP ID; kill -HUP ID".replace("ID", &process.child.id().to_string());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
        assert_eq!(process.child.try_wait().unwrap(), None, "the process has ended");
        let script = format!("kill -TERM {}", process.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
        process.child.wait().unwrap().code()
    });
    assert_eq!(ended.await.unwrap(), Some(0));
    lab.assert_logged_out();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_flag_is_enough_without_a_kubeconfig() {
    let lab = Lab::new().await;
    let mut arguments = lab.arguments();
    arguments.push(format!("--master={}", lab.cluster_address));
    let process = Process::start(&arguments);
    tokio::task::spawn_blocking(move || process.until("initialized")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_the_cluster_name_the_program() {
    let lab = Lab::new().await;
    let (listener, port) = listen().await;
    let mut arguments = lab.arguments();
    arguments.push(format!("--master=http://127.0.0.1:{port}"));
    let _process = Process::start(&arguments);
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = [0; 4096];
    let n = stream.read(&mut head).await.unwrap();
    let head = String::from_utf8_lossy(&head[..n]).to_lowercase();
    assert!(head.contains("user-agent: provider/"), "{head}");
}

/// Serves a proxy that answers every request with the status `says` and, if that is 200, connects
/// the tunnel to the port `to` of this host. Returns the port of the proxy, and the requests that
/// it receives, in lower case.
async fn serve_proxy(to: u16, says: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let (listener, port) = listen().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let asked = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                asked.lock().unwrap().push(String::from_utf8(head).unwrap().to_lowercase());
                stream.write_all(format!("HTTP/1.1 {says}\r\n\r\n").as_bytes()).await.unwrap();
                if !says.starts_with("200") {
                    return;
                }
                let mut further = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut further).await;
            });
        }
    });
    (port, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vcenter_is_reached_through_a_proxy_unless_it_is_excepted() {
    for variables in [["HTTPS_PROXY", "NO_PROXY"], ["https_proxy", "no_proxy"]] {
        let lab = Lab::new().await;
        let vcenter_port = serve_vcenter(lab.vcenter.clone()).await;
        let (proxy, asked) = serve_proxy(vcenter_port, "200 OK").await;
        lab.configure("vc.invalid", 443);
        let start = |no_proxy: &str, until: &'static str| {
            let process = lab.behind(variables, proxy, no_proxy);
            tokio::task::spawn_blocking(move || process.until(until))
        };
        start("other.invalid", "initialized").await.unwrap();
        let taken = std::mem::take(&mut *asked.lock().unwrap());
        assert!(taken[0].starts_with("connect vc.invalid:443 http/1.1\r\n"), "{taken:?}");
        assert!(taken[0].contains("proxy-authorization: basic dtpodw50zxiy"), "{taken:?}");
        lab.cluster.join("node-002", &scenarios::swapped(2));
        let said = start(".invalid", "the connection to vCenter failed").await.unwrap();
        assert!(said.contains("vc.invalid"), "{said}");
        assert_eq!(asked.lock().unwrap().len(), 0, "requests to the proxy");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_reports_a_proxy_that_refuses_the_tunnel_without_its_password() {
    let lab = Lab::new().await;
    let (proxy, asked) = serve_proxy(9, "407 Proxy Authentication Required").await;
    lab.configure("vc.invalid", 443);
    let process = lab.behind(["HTTPS_PROXY", "NO_PROXY"], proxy, "");
    let said = tokio::task::spawn_blocking(move || process.until("proxy authorization required"))
        .await
        .unwrap();
    assert!(said.contains("vc.invalid") && !said.contains("hunter2"), "{said}");
    assert_ne!(asked.lock().unwrap().len(), 0, "requests to the proxy");
}

/// The HTTPS endpoint of a process; requests to it accept any certificate.
struct Endpoint {
    port: u16,
}

impl Endpoint {
    /// An endpoint at a port that was free a moment ago.
    async fn new() -> Self {
        let (_, port) = listen().await;
        Self { port }
    }

    fn flags(&self) -> Vec<String> {
        vec!["--bind-address=127.0.0.1".to_owned(), format!("--secure-port={}", self.port)]
    }

    /// Sends a GET request with a bearer token; returns the status and the certificate of the
    /// server, or `None` without an answer.
    async fn get(&self, path: &str, token: &str) -> Option<(u16, Vec<u8>)> {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Looker(Arc::clone(&shown))))
        .with_no_client_auth();
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = "localhost".try_into().unwrap();
        let mut stream = connector.connect(name, stream).await.ok()?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut head = vec![0; 12];
        stream.read_exact(&mut head).await.ok()?;
        let status = String::from_utf8(head).ok()?.rsplit(' ').next()?.parse().ok()?;
        let shown = shown.lock().unwrap().clone();
        Some((status, shown))
    }

    /// Sends requests until `is_wanted` accepts status and certificate; panics after 60 s.
    async fn until(&self, path: &str, token: &str, is_wanted: impl Fn(u16, &[u8]) -> bool) {
        let asking = async {
            loop {
                let answer = self.get(path, token).await;
                if answer.is_some_and(|(status, shown)| is_wanted(status, &shown)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asking).await.expect("the wanted answer");
    }
}

/// Certificate verifier that accepts every certificate and keeps the last one.
#[derive(Debug)]
struct Looker(Arc<Mutex<Vec<u8>>>);

impl rustls::client::danger::ServerCertVerifier for Looker {
    fn verify_server_cert(
        &self,
        leaf: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        *self.0.lock().unwrap() = leaf.to_vec();
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_certificate_is_served_without_a_restart() {
    let (lab, endpoint) = (Lab::new().await, Endpoint::new().await);
    let make = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let write = |made: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        lab.write("tls.crt", &made.cert.pem());
        lab.write("tls.key", &made.signing_key.serialize_pem());
    };
    let (first, second) = (make(), make());
    write(&first);
    let mut arguments = lab.with_kubeconfig();
    arguments.extend(endpoint.flags());
    arguments.push(format!("--tls-cert-file={}", lab.path("tls.crt")));
    arguments.push(format!("--tls-private-key-file={}", lab.path("tls.key")));
    let process = Process::start(&arguments);
    endpoint
        .until("/healthz", "", |status, shown| status == 200 && shown == &**first.cert.der())
        .await;
    // The provider logs that the new certificate has no matching key, and serves the old one.
    lab.write("tls.crt", &second.cert.pem());
    let (process, said) = tokio::task::spawn_blocking(move || {
        let said = process.until("serving the old certificate");
        (process, said)
    })
    .await
    .unwrap();
    assert!(said.contains("does not belong to the certificate"), "{said}");
    let (status, shown) = endpoint.get("/healthz", "").await.unwrap();
    assert_eq!((status, shown.as_slice()), (200, &**first.cert.der()));
    write(&second);
    endpoint
        .until("/healthz", "", |status, shown| status == 200 && shown == &**second.cert.der())
        .await;
    drop(process);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_served_to_clients_that_the_cluster_allows() {
    let lab = Lab::new().await;
    let reviews = format!("={}", lab.path("kubeconfig"));
    for (flags, wanted) in [
        (vec![], [("/healthz", "", 200), ("/metrics", "", 403), ("/metrics", "scraper", 403)]),
        (
            vec![
                format!("--authentication-kubeconfig{reviews}"),
                format!("--authorization-kubeconfig{reviews}"),
            ],
            [("/metrics", "scraper", 200), ("/metrics", "", 403), ("/metrics", "nobody", 401)],
        ),
        (
            vec!["--authorization-always-allow-paths=/metrics,/healthz".to_owned()],
            [("/metrics", "", 200), ("/healthz", "", 200), ("/readyz", "", 403)],
        ),
    ] {
        let endpoint = Endpoint::new().await;
        let mut arguments = lab.with_kubeconfig();
        arguments.extend(endpoint.flags());
        arguments.extend(flags.clone());
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        let _process =
            Process::spawn(command.args(arguments).env_remove("KUBERNETES_SERVICE_HOST"));
        endpoint.until("/healthz", "", |_, _| true).await;
        for (path, token, want) in wanted {
            let (status, _) = endpoint.get(path, token).await.unwrap();
            assert_eq!(status, want, "{flags:?} {path} {token}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_endpoint_flags_stop_the_provider_at_start() {
    let lab = Lab::new().await;
    lab.write("nonsense", "nonsense");
    let nonsense = lab.path("nonsense");
    for (flags, wanted) in [
        (
            vec!["--client-ca-file=x".to_owned()],
            "--client-ca-file: does nothing in this provider, although it is about security; ",
        ),
        (
            vec!["--authorization-kubeconfig=/nope".to_owned()],
            "--authorization-kubeconfig /nope: cannot be read",
        ),
        (
            vec!["--tls-cert-file=/nope".to_owned(), "--tls-private-key-file=/nope".to_owned()],
            "--tls-cert-file /nope: cannot be read",
        ),
        (
            vec![
                format!("--tls-cert-file={nonsense}"),
                format!("--tls-private-key-file={nonsense}"),
            ],
            "--tls-cert-file: the file has no certificate",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        command.args(lab.with_kubeconfig()).arg("--secure-port=1").args(flags);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn the_definition_of_node_groups_is_printed_as_the_manifests_have_it() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
    let output = command.args(["autoscaler", "--print-crd"]).output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, include_str!("../../deploy/autoscaler-nodegroups.yaml"));
    assert!(printed.contains("kind: CustomResourceDefinition"));
}
