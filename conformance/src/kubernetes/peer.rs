//! Starts and stops a real etcd and kube-apiserver with the script `conformance/peers/cluster.sh`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A running etcd and kube-apiserver. Both stop when this value is dropped or this process dies,
/// because the script that runs them ends at the end of its standard input.
#[derive(Debug)]
pub struct Peer {
    script: Child,
    /// URL of the server.
    pub server: String,
    /// Bearer token of the administrator.
    pub token: String,
    /// URL of the server's etcd.
    pub etcd: String,
}

impl Peer {
    /// Starts etcd and kube-apiserver, and returns when they are ready.
    ///
    /// # Errors
    /// Fails if the programs are missing or do not start; the script prints the reason to standard
    /// error. `KUBEBUILDER_ASSETS` names the folder of the programs; without this variable the
    /// script builds them.
    pub fn start() -> anyhow::Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/cluster.sh");
        let mut script =
            Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(
                || format!("cannot start the script {}; make it executable", path.display()),
            )?;
        let mut line = String::new();
        if let Some(stdout) = script.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [server, token, etcd] = words[..] else {
            let _ = script.wait();
            anyhow::bail!("the real API server did not start; the lines above have the reason");
        };
        let (server, token, etcd) = (server.to_owned(), token.to_owned(), etcd.to_owned());
        Ok(Self { script, server, token, etcd })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
