//! The objects behind an API server: a trait for their owner, and the handle with which the server
//! uses them.

mod memory;
mod signal;

pub use memory::Memory;
pub use signal::{Changes, Signal};

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use kube_sim_store::{Command, Reply, Status, Store, Time};

/// Owner of the objects that an API server serves, and of their clock.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Locks the objects for reading, until the returned guard is dropped. The server drops the
    /// guard before it awaits anything or calls another method of the backend.
    fn store(&self) -> Box<dyn Deref<Target = Store> + '_>;

    /// Applies a client's command to the objects, and wakes the waiters of
    /// [`changes`](Self::changes) after it has released the objects.
    ///
    /// # Errors
    /// The `Status` with which the store refuses the command. The command changes no object then.
    fn apply(&self, command: Command) -> Result<Reply, Status>;

    /// Returns the current time of the objects' clock.
    fn now(&self) -> Time;

    /// Returns the timestamp of [`Time::ZERO`], the beginning of the objects' clock.
    fn epoch(&self) -> Timestamp;

    /// A waiter for changes of the objects. The waiter may also wake when no object has changed.
    fn changes(&self) -> Changes;
}

/// Handle of the server to its [`Backend`].
#[derive(Clone, Debug)]
pub(crate) struct Cluster(Arc<dyn Backend>);

impl Cluster {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }

    /// Calls `look` with the objects and returns the result of `look`.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Store) -> R) -> R {
        look(&self.0.store())
    }

    /// Applies a client's command to the objects.
    ///
    /// # Errors
    /// The `Status` with which the store refuses the command; the command changes no object then.
    pub(crate) fn apply(&self, command: Command) -> Result<Reply, Status> {
        self.0.apply(command)
    }

    /// Returns the current time of the objects' clock.
    pub(crate) fn now(&self) -> Time {
        self.0.now()
    }

    /// The current time as a timestamp for objects.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.0.now().timestamp(self.0.epoch())
    }

    /// A waiter for changes of the objects. The waiter may also wake when no object has changed.
    pub(crate) fn changes(&self) -> Changes {
        self.0.changes()
    }
}
