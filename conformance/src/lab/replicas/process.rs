//! Handle of a replica that is a process, and the part of the handle that its driver holds.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use sim::world::Time;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::lab::Exit;

/// The process of a replica, or the client process of its container or pod. Dropping this value
/// kills the replica.
#[derive(Debug)]
pub(crate) struct Process {
    index: usize,
    /// Sequence number of the first ledger record that this process can have caused.
    since: u64,
    signals: mpsc::UnboundedSender<ProcessOrder>,
    stop: CancellationToken,
    kill: CancellationToken,
    ended: CancellationToken,
    exit: Arc<Mutex<Option<(Exit, Time)>>>,
    /// Address of the replica's HTTPS endpoint, if the driver knows it.
    endpoint: Option<SocketAddr>,
}

/// A signal to send to the process, and the channel for the result.
pub(crate) type ProcessOrder = (Signal, oneshot::Sender<Result<(), String>>);

/// The driver's part of a [`Process`]: the orders to it, and the report of its end.
#[derive(Debug)]
pub(crate) struct ProcessControl {
    /// Signals to send.
    pub(crate) orders: mpsc::UnboundedReceiver<ProcessOrder>,
    /// Canceled when the process must stop.
    pub(crate) stop: CancellationToken,
    /// Canceled when the process must be killed.
    pub(crate) kill: CancellationToken,
    /// Report of the end to the lab.
    pub(crate) end: EndReport,
}

/// Tells the lab that a process has ended.
#[derive(Debug)]
pub(crate) struct EndReport {
    ended: CancellationToken,
    exit: Arc<Mutex<Option<(Exit, Time)>>>,
}

impl EndReport {
    /// Reports how and when the process has ended.
    pub(crate) fn report(self, how: Exit, at: Time) {
        *self.exit.lock().expect("no holder panics") = Some((how, at));
        self.ended.cancel();
    }
}

impl Process {
    /// Creates the handle of the replica `index`, and the part of it that the driver holds.
    /// `since` is the sequence number of the first ledger record that the process can cause.
    pub(crate) fn new(index: usize, since: u64) -> (Self, ProcessControl) {
        let (signals, orders) = mpsc::unbounded_channel();
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let (ended, exit) = (CancellationToken::new(), Arc::new(Mutex::new(None)));
        let control = ProcessControl {
            orders,
            stop: stop.clone(),
            kill: kill.clone(),
            end: EndReport { ended: ended.clone(), exit: Arc::clone(&exit) },
        };
        (Self { index, since, signals, stop, kill, ended, exit, endpoint: None }, control)
    }

    /// Sets the address of the HTTPS endpoint.
    pub(crate) fn serving_at(mut self, endpoint: Option<SocketAddr>) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Returns the address of the replica's HTTPS endpoint, or `None` if the driver does not know
    /// it: for a container or pod, and if neither the manifest nor the flags have `$(port)`.
    pub(crate) fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// Returns the index of the replica.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the sequence number of the first ledger record that this process can have caused.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Suspends the process and its children.
    ///
    /// # Errors
    /// Fails if the process has ended, if the provider runs in a container or pod, or if the system
    /// rejects the signal.
    pub(crate) async fn suspend(&self) -> Result<(), String> {
        self.signal(Signal::STOP).await
    }

    /// Resumes the process and its children. Does nothing if the process has ended or is not
    /// suspended, or if the provider runs in a container or pod.
    pub(crate) async fn resume(&self) {
        let _ = self.signal(Signal::CONT).await;
    }

    async fn signal(&self, signal: Signal) -> Result<(), String> {
        let (done, result) = oneshot::channel();
        let ended = || format!("replica {} has ended", self.index);
        self.signals.send((signal, done)).map_err(|_| ended())?;
        result.await.map_err(|_| ended())?
    }

    /// Waits until the process has ended for any reason.
    ///
    /// Cancel safe.
    pub(crate) async fn end(&self) {
        self.ended.cancelled().await;
    }

    /// Returns how the process ended, and at which world time, or `None` if it still runs.
    pub(crate) fn ended(&self) -> Option<(Exit, Time)> {
        self.exit.lock().expect("no holder panics").clone()
    }

    /// Sends SIGTERM, waits for the end of the process, and returns how it ended. Kills the process
    /// if it still runs after 30 s.
    pub(crate) async fn stop(self) -> Exit {
        self.stop.cancel();
        self.end().await;
        self.ended().map_or(Exit::Killed, |(how, _)| how)
    }

    /// Kills the process and waits for its end.
    pub(crate) async fn kill(self) {
        self.kill.cancel();
        self.end().await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}
