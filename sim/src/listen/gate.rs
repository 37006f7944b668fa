//! Gate of listeners: a switch that cuts off all of their clients, for callers that must stop a
//! client but cannot kill its process.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Switch of listeners: lets clients reach the faces of a sim (open, the default) or cuts them off
/// (shut). Clones are the same switch.
///
/// Shutting the gate breaks every connection to the listeners that have this gate. While the gate
/// is shut, each new connection breaks at once, so the faces receive no request, as if the client
/// had been killed. The ledger records the interrupted calls as abandoned, and has no note of the
/// gate. The admin port has no gate.
#[derive(Clone, Debug, Default)]
pub struct ClientGate(Arc<Mutex<CancellationToken>>);

impl ClientGate {
    /// Shuts the gate: breaks all connections, and each new one at once.
    pub fn shut(&self) {
        self.0.lock().cancel();
    }

    /// Opens the gate again for new connections.
    pub fn open(&self) {
        let mut shut = self.0.lock();
        if shut.is_cancelled() {
            *shut = CancellationToken::new();
        }
    }

    /// Returns a token that is canceled when the gate shuts. The token stays canceled when the gate
    /// opens again.
    pub(super) fn shut_token(&self) -> CancellationToken {
        self.0.lock().child_token()
    }
}
