//! A server at an address, and the program that carries out acts on what is behind it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::manifest::{Manifest, arguments};
use crate::lab::autoscaler::{
    Act, ActError, CallError, Channel, ClientTls, Connection, Control, Credentials, Endpoint,
    Subject,
};
use crate::scenario::InputError;

/// Exit code with which the program says that it has no way to carry out an act.
const NOT_SUPPORTED: i32 = 3;
/// Time that the program may take for an act.
const LONGEST_ACT: Duration = Duration::from_secs(300);

struct Remote {
    address: String,
    host: String,
    tls: Option<ClientTls>,
}

/// Program that carries out acts.
struct Program {
    path: PathBuf,
    /// The arguments before the name of the act.
    first: Vec<String>,
}

/// Returns the server of a manifest as a subject of checks.
pub(super) fn subject(manifest: &Manifest) -> Result<Subject, InputError> {
    let spec = &manifest.spec;
    let remote =
        Remote { address: spec.address.clone(), host: manifest.host(), tls: manifest.tls()? };
    let program = manifest.act_command().map(|(path, first)| Program { path, first });
    let control = program.map(|it| Box::new(it) as Box<dyn Control>);
    Ok(Subject {
        endpoint: Box::new(remote),
        control,
        may_change: spec.changes,
        may_delete_existing: false,
        deadline: spec.deadline,
        staleness: spec.staleness,
        overrides: spec.overrides.clone(),
    })
}

impl Remote {
    async fn connected(&self, as_whom: Credentials) -> Result<Connection, CallError> {
        let stream = TcpStream::connect(&self.address)
            .await
            .map_err(|err| CallError::local(format!("{}: {err}", self.address)))?;
        // Without delay, as the autoscaler's own client sends; else a call takes 40 ms longer.
        stream.set_nodelay(true).map_err(|err| CallError::local(err.to_string()))?;
        let Some(tls) = &self.tls else {
            return Ok(Connection { channel: Channel::open(stream).await?, tls: None });
        };
        let (stream, facts) = tls.connect(stream, &self.host, as_whom).await?;
        Ok(Connection { channel: Channel::open(stream).await?, tls: Some(facts) })
    }
}

impl Endpoint for Remote {
    fn connect(&self, as_whom: Credentials) -> BoxFuture<'_, Result<Connection, CallError>> {
        Box::pin(self.connected(as_whom))
    }

    fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl Program {
    async fn run(&self, act: &Act) -> Result<(), ActError> {
        let failed = |why: String| ActError::Failed(why);
        let program = self.path.display();
        let running = Command::new(&self.path)
            .args(&self.first)
            .args(arguments(act))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(LONGEST_ACT, running)
            .await
            .map_err(|_| failed(format!("{program} took longer than {LONGEST_ACT:?}")))?
            .map_err(|err| failed(format!("{program} cannot be started: {err}")))?;
        match output.status.code() {
            Some(0) => Ok(()),
            Some(NOT_SUPPORTED) => Err(ActError::NotSupported(act.as_str())),
            _ => {
                let text = String::from_utf8_lossy(&output.stderr);
                Err(failed(format!("{program} ended with {}: {}", output.status, text.trim())))
            }
        }
    }
}

impl Control for Program {
    fn carry_out(&self, act: &Act) -> BoxFuture<'_, Result<(), ActError>> {
        let act = act.clone();
        Box::pin(async move { self.run(&act).await })
    }
}
