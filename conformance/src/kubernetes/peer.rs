//! A real etcd and kube-apiserver that run as long as a value of this type exists.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A running API server. It stops when this is dropped or this process dies, because its script ends with its
/// standard input.
#[derive(Debug)]
pub struct Peer {
    script: Child,
    /// URL of the server.
    pub server: String,
    /// Token of the administrator.
    pub token: String,
    /// URL of the server's etcd.
    pub etcd: String,
}

impl Peer {
    /// Starts a server and returns when it is ready.
    ///
    /// # Errors
    /// Fails if the server cannot be built or does not start; the script prints the reason.
    pub fn start() -> anyhow::Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/cluster.sh");
        let mut script =
            Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(
                || format!("{} cannot be started; is it executable?", path.display()),
            )?;
        let mut line = String::new();
        if let Some(stdout) = script.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [server, token, etcd] = words[..] else {
            let _ = script.wait();
            anyhow::bail!("no API server came up; the lines above say why");
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
