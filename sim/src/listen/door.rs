//! Cuts every client off, for callers that cannot kill the client process and need its silence.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The door to all faces of a sim, open at first; the admin port has none.
///
/// While the door is shut, every connection breaks, and a new one breaks at once. To the faces the client seems to have been
/// killed, whatever it still does. The ledger records nothing of it.
#[derive(Clone, Debug, Default)]
pub struct Door(Arc<Mutex<CancellationToken>>);

impl Door {
    /// Shuts the door. Requests that arrive from now on are not served.
    pub fn shut(&self) {
        self.0.lock().cancel();
    }

    /// Opens the door again, for new connections.
    pub fn open(&self) {
        let mut shut = self.0.lock();
        if shut.is_cancelled() {
            *shut = CancellationToken::new();
        }
    }

    /// Returns a token that is canceled once the door is shut, and stays so when the door opens again.
    pub(super) fn shuts(&self) -> CancellationToken {
        self.0.lock().child_token()
    }
}
