//! A vCenter simulator as a process, our sim or vcsim, and a client that sends both the same
//! requests.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use provider_vcenter::{Endpoint, TlsTrust, Transport, https};
use tower::ServiceExt;

use crate::envelope;

const USER: &str = "administrator@vsphere.local";

/// The program of a vCenter simulator, with its arguments.
#[derive(Debug)]
pub struct Program {
    /// Name of the program in tables.
    pub name: String,
    binary: PathBuf,
    arguments: Vec<String>,
}

/// A running simulator and a session in it. Dropping this value kills the process.
#[derive(Debug)]
pub struct Peer {
    /// Time from process start to the first answered login.
    pub started_in: Duration,
    process: Child,
    transport: Transport,
    cookie: String,
}

impl Program {
    /// Our `sim serve` with this number of machines in three zones and no Nodes, as a release ships
    /// it, from the build directory of this bench.
    ///
    /// # Errors
    /// If the program is not built, returns a message that names it and the command that builds it.
    pub fn sim(machines: u32) -> Result<Self, String> {
        let here = std::env::current_exe().map_err(|err| err.to_string())?;
        let binary = here.ancestors().nth(3).map(|target| target.join("dist/sim"));
        let binary = binary.filter(|binary| binary.is_file());
        let binary = binary
            .ok_or("sim is not built; run cargo build --profile dist --locked -p vsphere-sim")?;
        let arguments =
            ["serve", "--nodes", "0", "--zones", "3", "--vcenter-listen", "127.0.0.1:0"];
        let arguments = arguments.into_iter().chain(["--cluster-listen", "127.0.0.1:0"]);
        let arguments = arguments.chain(["--admin-listen", "127.0.0.1:0", "--vms"]);
        let mut arguments: Vec<String> = arguments.map(str::to_owned).collect();
        arguments.push(machines.to_string());
        Ok(Self { name: format!("sim, {machines} VMs"), binary, arguments })
    }

    /// vcsim of govmomi with this number of machines; `conformance/peers/build.sh` builds it.
    ///
    /// # Errors
    /// Returns a message if the build fails, usually because Go is missing.
    pub fn vcsim(machines: u32) -> Result<Self, String> {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/peers/build.sh");
        let output = Command::new(build).arg("vcsim").stderr(Stdio::inherit()).output();
        let output = output.map_err(|err| {
            format!("cannot build vcsim: cannot start conformance/peers/build.sh: {err}")
        })?;
        if !output.status.success() {
            return Err("cannot build vcsim: see the output above".into());
        }
        let binary = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let machines_text = machines.to_string();
        let arguments = ["-standalone-host", "0", "-username", USER, "-password", "bench", "-vm"];
        let arguments = arguments.into_iter().chain([machines_text.as_str()]);
        let arguments = arguments.map(str::to_owned).collect();
        Ok(Self { name: format!("vcsim, {machines} VMs"), binary, arguments })
    }

    /// Starts the program and logs in.
    ///
    /// # Panics
    /// If the program does not start, ends without printing its URL, or refuses the login of the
    /// administrator.
    #[expect(clippy::disallowed_methods, reason = "the bench measures wall time")]
    pub async fn start(&self) -> Peer {
        let begin = Instant::now();
        let mut process = Command::new(&self.binary)
            .args(&self.arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|err| panic!("{}: {err}", self.binary.display()));
        let (url, password) = address(&mut process);
        let address = url.trim_start_matches("https://").trim_end_matches("/sdk");
        let address = address.rsplit_once('@').map_or(address, |(_, address)| address);
        let (host, port) = address.rsplit_once(':').expect("an address with a port");
        let port = port.parse().expect("a port is a number");
        let endpoint = Endpoint { name: self.name.as_str().into(), host: host.to_owned(), port };
        let trust = TlsTrust { insecure: true, ..TlsTrust::default() };
        let transport = https(&endpoint, &trust).expect("no certificate authority is needed");
        let cookie = String::new();
        let mut peer = Peer { started_in: Duration::ZERO, process, transport, cookie };
        peer.login(&password).await;
        peer.started_in = begin.elapsed();
        peer
    }
}

/// Reads the output of the process until it contains the URL and, unless the URL has credentials,
/// the administrator's password. Returns both. A URL with credentials comes from vcsim, whose
/// password is `bench`.
fn address(process: &mut Child) -> (String, String) {
    let output = process.stdout.take().expect("standard output is a pipe");
    let (mut url, mut password) = (String::new(), "bench".to_owned());
    for line in BufReader::new(output).lines() {
        let line = line.expect("the output is text");
        if let Some(value) = line.trim().strip_prefix("export GOVC_URL=") {
            url = value.to_owned();
            if value.contains('@') {
                break;
            }
        }
        if let Some(value) = line.trim().strip_prefix("export GOVC_PASSWORD=") {
            password = value.to_owned();
            break;
        }
    }
    assert!(!url.is_empty(), "the process ended without printing GOVC_URL");
    (url, password)
}

impl Peer {
    async fn login(&mut self, password: &str) {
        let login = envelope(&format!(
            r#"<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this><userName>{USER}</userName><password>{password}</password></Login>"#
        ));
        let response = self.send(login).await;
        assert!(response.status().is_success(), "the simulator refused the login");
        let cookie = response.headers().get(http::header::SET_COOKIE);
        let cookie = cookie.and_then(|cookie| cookie.to_str().ok()).expect("a login sets a cookie");
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    }

    async fn send(&self, body: String) -> http::Response<provider_vcenter::Body> {
        let request = http::Request::post("/sdk")
            .header(http::header::CONTENT_TYPE, "text/xml; charset=utf-8")
            .header("SOAPAction", "urn:vim25/8.0.0.0")
            .header(http::header::COOKIE, &self.cookie)
            .body(Full::new(Bytes::from(body)))
            .expect("the request is well-formed");
        self.transport.clone().oneshot(request).await.expect("the simulator answers")
    }

    /// Sends an envelope and returns the answer.
    ///
    /// # Panics
    /// If the answer has an error status, as every fault has.
    pub async fn call(&self, body: String) -> Bytes {
        let response = self.send(body).await;
        let status = response.status();
        let body = response.into_body().collect().await.expect("the answer is complete").to_bytes();
        assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
        body
    }

    async fn text(&self, body: String) -> String {
        String::from_utf8_lossy(&self.call(body).await).into_owned()
    }

    /// Returns the BIOS UUIDs of all machines.
    ///
    /// # Panics
    /// If an answer has an error status, as every fault has.
    pub async fn uuids(&self) -> Vec<String> {
        let view = self
            .text(envelope(
                r#"<CreateContainerView xmlns="urn:vim25"><_this type="ViewManager">ViewManager</_this><container type="Folder">group-d1</container><type>VirtualMachine</type><recursive>true</recursive></CreateContainerView>"#,
            ))
            .await;
        let view = values(&view, "<returnval", "</returnval>").next().expect("a view");
        let view = view.rsplit('>').next().unwrap_or_default().to_owned();
        let all = self
            .text(envelope(&format!(
                r#"<RetrieveProperties xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><specSet><propSet><type>VirtualMachine</type><pathSet>config.uuid</pathSet></propSet><objectSet><obj type="ContainerView">{view}</obj><skip>true</skip><selectSet xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="TraversalSpec"><type>ContainerView</type><path>view</path><skip>false</skip></selectSet></objectSet></specSet></RetrieveProperties>"#
            )))
            .await;
        values(&all, "<val", "</val>")
            .filter_map(|value| Some(value.rsplit_once('>')?.1.to_owned()))
            .collect()
    }

    /// Returns the id of the machine with this BIOS UUID, such as `vm-17`.
    ///
    /// # Panics
    /// If no machine has this UUID, or if the answer has an error status.
    pub async fn reference(&self, uuid: &str) -> String {
        let answer = self
            .text(envelope(&format!(
                r#"<FindByUuid xmlns="urn:vim25"><_this type="SearchIndex">SearchIndex</_this><uuid>{uuid}</uuid><vmSearch>true</vmSearch></FindByUuid>"#
            )))
            .await;
        let found = values(&answer, "<returnval", "</returnval>").next().expect("a machine");
        found.rsplit('>').next().unwrap_or_default().to_owned()
    }
}

/// Iterates over the texts between each `from` and the next `to`.
fn values<'a>(text: &'a str, from: &'a str, to: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(from).skip(1).filter_map(move |rest| Some(rest.split_once(to)?.0))
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Ignores errors, because the process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
