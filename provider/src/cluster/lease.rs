//! The leader lease of this process: decides if the process may send a write now.
//!
//! A leader that was stopped (SIGSTOP, a suspended host) may wake after the end of its lease. Then
//! pending writes, due timers and a late renewal run in any order. So the client checks the lease
//! before every write at the last moment, when it hands the request to the connection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;

use crate::model::Clock;

/// A moment on two clocks: the time since the boot of the host, and the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    boot: Duration,
    wall: Timestamp,
}

impl Moment {
    pub(crate) fn now(clock: &Clock) -> Self {
        Self { boot: clock.since_boot(), wall: clock.now() }
    }

    /// Time since this moment, by the clock that counted more: a hypervisor that suspends the host
    /// may stop one of the clocks.
    fn elapsed(self, clock: &Clock) -> Duration {
        let boot = clock.since_boot().saturating_sub(self.boot);
        boot.max(clock.since(self.wall))
    }
}

/// Permission to write, which ends `lasts` after the start of the last renewal. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct WritePermission {
    clock: Clock,
    lasts: Duration,
    renewed: Arc<Mutex<Option<Moment>>>,
}

impl WritePermission {
    /// A permission that does not permit writes before the first renewal. `lasts` is the renew
    /// deadline: the holder stops writing before another replica may take over.
    pub(crate) fn new(clock: Clock, lasts: Duration) -> Self {
        Self { clock, lasts, renewed: Arc::default() }
    }

    /// Notes that a renewal that began at `begun` has succeeded.
    pub(crate) fn renewed(&self, begun: Moment) {
        *self.renewed.lock().expect("nothing panics under this lock") = Some(begun);
    }

    /// Ends the permission: until the next renewal the process may not send a write.
    pub(crate) fn end(&self) {
        *self.renewed.lock().expect("nothing panics under this lock") = None;
    }

    /// True if the process may send a write now.
    pub(crate) fn is_held(&self) -> bool {
        let renewed = *self.renewed.lock().expect("nothing panics under this lock");
        renewed.is_some_and(|renewed| renewed.elapsed(&self.clock) < self.lasts)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::model::SteppedTime;

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_on_either_clock_counted_from_the_start_of_its_renewal() {
        let source = Arc::new(SteppedTime::starting_at(Timestamp::UNIX_EPOCH));
        let clock = Clock::new(Arc::clone(&source) as _);
        let lease = WritePermission::new(clock.clone(), Duration::from_secs(10));
        assert!(!lease.is_held(), "never renewed");
        let begun = Moment::now(&clock);
        tokio::time::advance(Duration::from_secs(4)).await;
        lease.renewed(begun);
        tokio::time::advance(Duration::from_millis(5999)).await;
        assert!(lease.is_held());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!lease.is_held(), "ten seconds after the renewal began");
        // At a resume the wall clock jumps; the time since boot stood still meanwhile.
        lease.renewed(Moment::now(&clock));
        source.step(SignedDuration::from_secs(11));
        assert!(!lease.is_held());
        // A step backwards does not prolong the lease.
        lease.renewed(Moment::now(&clock));
        source.step(SignedDuration::from_secs(-3600));
        assert!(lease.is_held());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!lease.is_held());
        lease.renewed(Moment::now(&clock));
        lease.end();
        assert!(!lease.is_held());
    }

    /// The host resumes with the wall clock of the moment at which it was suspended. Neither the
    /// wall clock nor tokio's clock shows that the lease has run out; the time since boot does.
    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_while_the_host_is_suspended() {
        let source = Arc::new(SteppedTime::starting_at(Timestamp::UNIX_EPOCH));
        let clock = Clock::new(Arc::clone(&source) as _);
        let lease = WritePermission::new(clock.clone(), Duration::from_secs(10));
        let suspend = |seconds: u32| {
            source.suspend(Duration::from_secs(seconds.into()));
            source.step(SignedDuration::from_secs(-i64::from(seconds)));
        };
        lease.renewed(Moment::now(&clock));
        suspend(9);
        assert!(lease.is_held());
        suspend(1);
        assert!(!lease.is_held());
    }
}
