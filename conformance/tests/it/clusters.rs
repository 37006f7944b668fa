//! Tests providers in pods, with a fake `kubectl` in place of a cluster.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A folder with a manifest and a fake `kubectl`. The folder comes first in the `PATH` of the run.
struct Stand {
    dir: TempDir,
    manifest: PathBuf,
}

impl Stand {
    fn new(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let manifest = dir.path().join("mine.yaml");
        let run = format!("{{cluster: {{image: 'mine:1', context: mine{more}}}}}");
        let text = format!(
            "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {{name: mine}}\nspec: {{run: {run}}}\n"
        );
        std::fs::write(&manifest, text).unwrap();
        Self { dir, manifest }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Installs a `kubectl` with this script.
    fn kubectl(&self, script: &str) {
        let path = self.at("kubectl");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn start(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_conformance"))
            .args(["run", "NODE-004", "--no-calibration", "--provider"])
            .arg(&self.manifest)
            .env("PATH", format!("{}:/usr/bin:/bin", self.dir.path().display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the program, expects a usage error, and returns its text.
    fn refused(&self) -> String {
        let output = self.start().wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        error
    }
}

/// Returns an address of this computer other than loopback, without sending a packet; `None`
/// without a network.
fn address() -> Option<IpAddr> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|it| !it.is_loopback())
}

#[test]
fn an_unusable_cluster_is_reported_before_a_case_starts() {
    let stand = Stand::new(", kubeconfig: $(manifest.dir)/none");
    stand.kubectl("echo \"no cluster at $*\" >&2; exit 1");
    let error = stand.refused();
    let remedy = "may list and delete pods and Secrets there, or correct spec.run.cluster.kubeconfig, context";
    assert!(error.contains("mine: the cluster cannot be used"), "{error}");
    assert!(error.contains(remedy), "{error}");
    let place = format!("--kubeconfig={}/none --context=mine", stand.dir.path().display());
    let said = format!("kubectl get failed: no cluster at {place} get pods,secrets");
    assert!(error.contains(&said), "{error}");
    let stand = Stand::new(", namespace: nowhere");
    let script = "case $* in *dry-run*) echo no such namespace >&2; exit 1 ;; *) echo '{}' ;; esac";
    stand.kubectl(script);
    let error = stand.refused();
    assert!(error.contains("correct spec.run.cluster.namespace"), "{error}");
    assert!(error.contains("kubectl create failed: no such namespace"), "{error}");
    // This address is reserved for documentation, so no computer has it.
    let stand = Stand::new(", address: 203.0.113.7");
    stand.kubectl("cat >/dev/null; echo '{}'");
    let error = stand.refused();
    let want = "spec.run.cluster.address: 203.0.113.7: this computer cannot listen on this address";
    assert!(error.contains(want), "{error}");
}

/// Script of a `kubectl` that accepts all requests; its pod runs and prints nothing. The script
/// records its calls in a file, and the process of `kubectl logs` holds a pipe open.
const QUIET: &str = r#"
echo "$*" >>"$(dirname "$0")/asked"
case $* in
  *"get pods"*) echo '{"items": []}' ;;
  *create*) cat >>"$(dirname "$0")/created" ;;
  *--watch*) echo '{"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}' ;;
  *logs*) exec 3>"$(dirname "$0")/pipe"; echo logs >&3; exec sleep 1000 ;;
esac"#;

#[test]
fn a_run_that_receives_sigterm_leaves_no_pod() {
    let Some(address) = address() else { return };
    let stand = Stand::new(&format!(", address: '{address}'"));
    stand.kubectl(QUIET);
    let pipe = stand.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = stand.start();
    let mut line = String::new();
    BufReader::new(File::open(&pipe).unwrap()).read_line(&mut line).unwrap();
    let process = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(143), "{error}");
    assert!(error.contains("interrupted by SIGTERM"), "{error}");
    let asked = std::fs::read_to_string(stand.at("asked")).unwrap();
    let names = created(&stand.at("created"));
    let own = format!("conformance-{process}-");
    assert!(names.iter().any(|it| it.starts_with(&format!("{own}node-004-"))), "{names:?}");
    assert!(names.iter().all(|it| it.starts_with(&own)), "{names:?}");
    // The cleanup also covers an object that the signal interrupted during its creation.
    let last = asked.lines().last().unwrap_or_default();
    let rest = format!("delete pods,secrets -l io.vsphere-lab.driver=conformance-{process},");
    assert!(last.contains(&rest), "{asked}");
}

/// Returns the names of created objects.
fn created(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).unwrap();
    let lists = serde_json::Deserializer::from_slice(&text).into_iter::<serde_json::Value>();
    let items = lists.flat_map(|it| it.unwrap()["items"].as_array().cloned().unwrap_or_default());
    items.filter_map(|it| Some(it["metadata"]["name"].as_str()?.to_owned())).collect()
}
