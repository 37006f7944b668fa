//! Whether clients are let in: for who cannot end a client at once and has to be sure that it says nothing more.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The door to all faces of a sim; the admin port has none. It is open at first.
///
/// Behind a shut door every connection is broken and a new one breaks as it comes: to the faces it looks as if the client had
/// been killed, whatever it still does. Nothing of it stands in the ledger.
#[derive(Clone, Debug, Default)]
pub struct Door(Arc<Mutex<CancellationToken>>);

impl Door {
    /// Shuts it. What arrives from now on is not served.
    pub fn shut(&self) {
        self.0.lock().cancel();
    }

    /// Opens it again, for new connections.
    pub fn open(&self) {
        let mut shut = self.0.lock();
        if shut.is_cancelled() {
            *shut = CancellationToken::new();
        }
    }

    /// Cancelled when it is shut, however often it is opened after that.
    pub(super) fn shuts(&self) -> CancellationToken {
        self.0.lock().child_token()
    }
}
