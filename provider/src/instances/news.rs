//! Names of nodes with news, for one reader.

use std::{collections::BTreeSet, sync::Mutex};

use tokio::sync::Notify;

/// Names that were announced and not taken yet.
#[derive(Debug, Default)]
pub(super) struct News {
    names: Mutex<BTreeSet<String>>,
    arrived: Notify,
}

impl News {
    pub(super) fn announce(&self, names: BTreeSet<String>) {
        if names.is_empty() {
            return;
        }
        self.names.lock().expect("nothing panics under this lock").extend(names);
        self.arrived.notify_one();
    }

    /// Waits for news and takes all names.
    ///
    /// Cancel safe: the next call returns the names that this one did not.
    pub(super) async fn take(&self) -> BTreeSet<String> {
        loop {
            let arrived = self.arrived.notified();
            let names =
                std::mem::take(&mut *self.names.lock().expect("nothing panics under this lock"));
            if !names.is_empty() {
                return names;
            }
            arrived.await;
        }
    }
}
