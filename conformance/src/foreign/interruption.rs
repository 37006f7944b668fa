//! Ends of a run by SIGINT, which Ctrl-C sends, and by SIGTERM.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signal that ended a run before the end of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Interruption {
    /// SIGINT.
    #[error("interrupted by SIGINT; the work is not complete, so start it again")]
    Interrupt,
    /// SIGTERM.
    #[error("interrupted by SIGTERM; the work is not complete, so start it again")]
    Terminate,
}

impl Interruption {
    /// Returns the exit code that shells give a program that this signal ends: 128 and the number
    /// of the signal.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Receiver of SIGINT and SIGTERM. Once it exists, these signals no longer end the process by
/// themselves.
#[derive(Debug)]
pub(crate) struct Interruptions {
    interrupt: Signal,
    terminate: Signal,
}

impl Interruptions {
    /// Begins to receive the signals.
    ///
    /// # Errors
    /// Fails if the system refuses the signal handlers.
    pub(crate) fn listen() -> io::Result<Self> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Interruption {
        tokio::select! {
            _ = self.interrupt.recv() => Interruption::Interrupt,
            _ = self.terminate.recv() => Interruption::Terminate,
        }
    }
}
