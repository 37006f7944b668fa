//! A server in memory that keeps every promise, and with a [`Flaw`] breaks a known one. It shows that
//! the checks pass a good server, and that each of them can fail.

mod flaw;
mod http;
mod machines;
mod service;

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use self::machines::{Group, Machines};
use super::client::{CallError, Channel};
use super::subject::{
    Act, ActError, Connection, Control, Credentials, Endpoint, Overrides, Setting, Subject,
};
use super::tls::{HOST, TlsMaterial};

pub use flaw::Flaw;

const UNAVAILABLE: i32 = 14;
/// Age from which the reference no longer trusts its view.
const STALENESS: std::time::Duration = std::time::Duration::from_secs(300);

/// How clients reach the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// By calls in this process, which is fastest.
    Memory,
    /// By HTTP/2 over a pipe.
    Plain,
    /// By HTTP/2 over mutual TLS over a pipe.
    Tls,
}

#[derive(Clone)]
enum Transport {
    Memory,
    Plain,
    Tls(Arc<TlsMaterial>),
}

/// A server in memory. Clones share their state.
#[derive(Clone)]
pub struct Reference {
    state: Arc<Mutex<State>>,
    transport: Transport,
    flaw: Option<Flaw>,
    /// Tasks that serve connections.
    serving: Arc<Mutex<Vec<AbortOnDropHandle<()>>>>,
}

struct State {
    machines: Machines,
    /// The state before the last increase, for flaws of restarts.
    earlier: Option<Machines>,
    /// Last increase, for flaws of restarts.
    last_increase: Option<(String, i32)>,
    was_refreshed: bool,
    /// Time since when the backend does not answer.
    down_since: Option<Instant>,
    n_open: usize,
    n_labels: u32,
    /// Number of restarts. A connection of an earlier process is broken.
    n_restarts: u32,
}

impl Reference {
    /// Creates a server with its groups, for clients over this wire.
    ///
    /// # Panics
    ///
    /// If the system has no randomness for keys.
    pub fn new(flaw: Option<Flaw>, wire: Wire) -> Self {
        let plain = |id, min, max| Group { id, min, max, has_gpu: false, overrides: Vec::new() };
        let groups = vec![
            plain("pool", 0, if flaw == Some(Flaw::LongTexts) { 10_000 } else { 60 }),
            plain("pair", 1, 3),
            Group { has_gpu: true, ..plain("gpu", 0, 2) },
            Group { overrides: vec![Setting::Unneeded], ..plain("tuned", 0, 2) },
        ];
        let state = State {
            machines: Machines::new(groups, flaw),
            earlier: None,
            last_increase: None,
            was_refreshed: false,
            down_since: None,
            n_open: 0,
            n_labels: 0,
            n_restarts: 0,
        };
        let material = || TlsMaterial::generate().expect("the system has randomness");
        let transport = match wire {
            Wire::Memory => Transport::Memory,
            Wire::Plain => Transport::Plain,
            Wire::Tls => Transport::Tls(Arc::new(material())),
        };
        Self { state: Arc::new(Mutex::new(state)), transport, flaw, serving: Arc::default() }
    }

    /// Serves connections to a socket in plain text, for ever.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub async fn listen(&self, socket: tokio::net::TcpListener) -> std::io::Result<()> {
        loop {
            let (stream, _) = socket.accept().await?;
            stream.set_nodelay(true)?;
            self.serve(stream);
        }
    }

    /// Returns the server as a subject of checks.
    pub fn subject(&self) -> Subject {
        let groups = self.state.lock().expect("no holder panics").machines.groups.clone();
        let overrides: Overrides =
            groups.into_iter().map(|it| (it.id.to_owned(), it.overrides)).collect();
        Subject {
            endpoint: Box::new(self.clone()),
            control: Some(Box::new(self.clone())),
            may_change: true,
            may_delete_existing: true,
            deadline: std::time::Duration::from_secs(5),
            staleness: STALENESS,
            overrides: Some(overrides),
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Serves a connection in a task.
    fn serve<S>(&self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let server = self.clone();
        let task = tokio::spawn(http::serve(stream, move |path, body| {
            let server = server.clone();
            async move { server.answer(&path, &body).await }
        }));
        self.serving.lock().expect("no holder panics").push(AbortOnDropHandle::new(task));
    }

    fn n_restarts(&self) -> u32 {
        self.state.lock().expect("no holder panics").n_restarts
    }

    fn in_memory(&self) -> Channel {
        let (server, process) = (self.clone(), self.n_restarts());
        Channel::in_memory(Arc::new(move |path, body| {
            let server = server.clone();
            Box::pin(async move {
                if server.n_restarts() != process {
                    return Err(CallError::local("the server was killed"));
                }
                let answer = server.answer(&path, &body).await;
                answer.map(Into::into).map_err(|it| CallError::status(it.0, it.1))
            })
        }))
    }

    async fn connected(&self, as_whom: Credentials) -> Result<Connection, CallError> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let tls = match &self.transport {
            Transport::Memory => {
                return Ok(Connection { channel: self.in_memory(), tls: None });
            }
            Transport::Plain => {
                self.serve(theirs);
                return Ok(Connection { channel: Channel::open(ours).await?, tls: None });
            }
            Transport::Tls(material) => Arc::clone(material),
        };
        let authorities = match self.flaw {
            Some(Flaw::ServesWithoutCertificate) => None,
            Some(Flaw::ServesStrangers) => Some(tls.client.all_authorities()),
            _ => Some(tls.client.authorities.clone()),
        };
        let mut config = tls.server_config(authorities.as_deref()).map_err(CallError::own)?;
        if !self.has(Flaw::NoAlpn) {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let server = self.clone();
        let accepting = tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            if let Ok(stream) = acceptor.accept(theirs).await {
                server.serve(stream);
            }
        });
        self.serving.lock().expect("no holder panics").push(AbortOnDropHandle::new(accepting));
        let (stream, facts) = tls.client.connect(ours, HOST, as_whom).await?;
        Ok(Connection { channel: Channel::open(stream).await?, tls: Some(facts) })
    }

    fn restart(&self) {
        self.serving.lock().expect("no holder panics").clear();
        let mut state = self.state.lock().expect("no holder panics");
        state.was_refreshed = false;
        state.n_restarts += 1;
        match (self.flaw, state.earlier.take(), state.last_increase.take()) {
            (Some(Flaw::ForgetsIncrease), Some(earlier), _) => state.machines = earlier,
            (Some(Flaw::RepeatsIncrease), _, Some((group, delta))) => {
                // The repetition fails only above the maximum.
                let _ = state.machines.increase(&group, delta);
            }
            (Some(Flaw::RevivesDeleted), _, _) => state.machines.revive(),
            _ => {}
        }
    }
}

impl Endpoint for Reference {
    fn connect(&self, as_whom: Credentials) -> BoxFuture<'_, Result<Connection, CallError>> {
        Box::pin(self.connected(as_whom))
    }

    fn is_tls(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }
}

impl Control for Reference {
    fn carry_out(&self, act: &Act) -> BoxFuture<'_, Result<(), ActError>> {
        let act = act.clone();
        Box::pin(async move {
            let mut state = self.state.lock().expect("no holder panics");
            match act {
                Act::Restart => {
                    drop(state);
                    self.restart();
                }
                Act::StopBackend => state.down_since = Some(Instant::now()),
                Act::StartBackend => state.down_since = None,
                other => state.machines.meet(&other),
            }
            Ok(())
        })
    }
}
