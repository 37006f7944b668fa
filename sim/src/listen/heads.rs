//! Requests over HTTP/1 that begin and do not go on: the head of one has a deadline, a connection between two has none.
//!
//! hyper's own deadline for heads runs while a connection is idle, too, and would end those that clients keep.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

/// Requests of one connection whose heads were read, and how many of them are not answered. Clones are the same connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    n_read: AtomicU64,
    n_open: AtomicU64,
}

/// A request that is being served.
pub(super) struct Open(Arc<Counts>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.n_open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Heads {
    /// Notes that the head of a request has been read, and that it is being served until the answer is dropped.
    pub(super) fn read(&self) -> Open {
        self.counts.n_read.fetch_add(1, Ordering::Relaxed);
        self.counts.n_open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(&self.counts))
    }
}

/// The deadline of the head that has begun.
pub(super) struct HeadDeadline {
    heads: Heads,
    lasts: Duration,
    /// Heads that were read before it began, and when it is to be there.
    begun: Option<(u64, Pin<Box<Sleep>>)>,
}

impl HeadDeadline {
    pub(super) fn new(heads: Heads, lasts: Duration) -> Self {
        Self { heads, lasts, begun: None }
    }

    /// Notes that bytes came in.
    pub(super) fn bytes(&mut self) {
        let Counts { n_read, n_open } = &*self.heads.counts;
        let n_read = n_read.load(Ordering::Relaxed);
        if n_open.load(Ordering::Relaxed) > 0 {
            // They belong to a body, or to a request that is looked at later.
            self.begun = None;
        } else if self.begun.as_ref().is_none_or(|(of, _)| *of != n_read) {
            self.begun = Some((n_read, Box::pin(tokio::time::sleep(self.lasts))));
        }
    }

    /// Whether a head has begun, is not there, and is overdue.
    pub(super) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let n_read = self.heads.counts.n_read.load(Ordering::Relaxed);
        match &mut self.begun {
            Some((of, due)) if *of == n_read => due.as_mut().poll(cx) == Poll::Ready(()),
            _ => false,
        }
    }
}
