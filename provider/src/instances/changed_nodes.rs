//! Queue of the names of nodes whose answers may have changed, for one reader.

use std::{collections::BTreeSet, sync::Mutex};

use tokio::sync::Notify;

use crate::model::NodeName;

/// Names that a backend has announced and the reader has not taken yet.
#[derive(Debug, Default)]
pub(super) struct ChangedNodes {
    names: Mutex<BTreeSet<NodeName>>,
    arrived: Notify,
}

impl ChangedNodes {
    /// Adds names, and wakes the reader.
    pub(super) fn announce(&self, names: BTreeSet<NodeName>) {
        if names.is_empty() {
            return;
        }
        self.names.lock().expect("nothing panics under this lock").extend(names);
        self.arrived.notify_one();
    }

    /// Waits until a name is announced, unless one is already, and takes all names.
    ///
    /// Cancel safe: the next call returns the names that a cancelled call did not return.
    pub(super) async fn take(&self) -> BTreeSet<NodeName> {
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
