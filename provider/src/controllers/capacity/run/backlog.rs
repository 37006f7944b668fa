//! Objects that wait for a decision: each once, and after a failure with a growing delay.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use provider_vcenter::{Backoff, Jitter};
use tokio::{sync::Notify, time::Instant};

use super::super::objects::Target;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// The waiting objects.
pub(super) struct Backlog {
    seed: u64,
    state: Mutex<BacklogState>,
    added: Notify,
}

#[derive(Default)]
struct BacklogState {
    due: BTreeMap<Target, Instant>,
    failures: BTreeMap<Target, Failures>,
}

/// Failures of an object in a row.
struct Failures {
    backoff: Backoff,
    /// Text of the last failure.
    problem: String,
}

/// The delay after a failure.
pub(super) struct Delay {
    pub(super) time: Duration,
    /// True if the failure before had another text, or none was before.
    pub(super) is_news: bool,
}

impl Backlog {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, state: Mutex::default(), added: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, BacklogState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Adds an object, which no longer waits for a delay.
    pub(super) fn add(&self, target: Target) {
        self.lock().due.insert(target, Instant::now());
        self.added.notify_one();
    }

    /// Waits for the next object and takes it out.
    ///
    /// Cancel safe: a cancelled call takes no object.
    pub(super) async fn next(&self) -> Target {
        loop {
            let added = self.added.notified();
            let first = {
                let due = &mut self.lock().due;
                let first = due.iter().min_by_key(|(_, at)| **at);
                let first = first.map(|(target, at)| (target.clone(), *at));
                if let Some((target, _)) = first.as_ref().filter(|it| it.1 <= Instant::now()) {
                    due.remove(target);
                    return target.clone();
                }
                first.map(|(_, at)| at)
            };
            match first {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, added).await;
                }
                None => added.await,
            }
        }
    }

    /// Forgets the failures of an object.
    pub(super) fn succeeded(&self, target: &Target) {
        self.lock().failures.remove(target);
    }

    /// Adds an object again after a delay of at least `pause`, unless it is due sooner.
    pub(super) fn failed(&self, target: Target, problem: &str, pause: Duration) -> Delay {
        let state = &mut *self.lock();
        let failures = state.failures.entry(target.clone()).or_insert_with(|| {
            let purpose = format!("capacity/{}/{}", target.kind, target.name);
            let jitter = Jitter::new(self.seed, &purpose);
            let backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY, jitter);
            Failures { backoff, problem: String::new() }
        });
        let is_news = failures.problem != problem;
        problem.clone_into(&mut failures.problem);
        let time = failures.backoff.next_pause().max(pause);
        let at = Instant::now() + time;
        let due = state.due.entry(target).or_insert(at);
        *due = at.min(*due);
        Delay { time, is_news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::capacity::kind::{Kind, ObjectName};

    fn target(name: &str) -> Target {
        Target { kind: Kind::MachineSet, name: ObjectName::new("n", name) }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_fails_comes_back_after_a_growing_delay() {
        let backlog = Backlog::new(1);
        let mut waits = Vec::new();
        for n in 0..12 {
            let delay = backlog.failed(target("a"), "missing", Duration::ZERO);
            assert_eq!(delay.is_news, n == 0);
            let start = Instant::now();
            assert_eq!(backlog.next().await, target("a"));
            waits.push(start.elapsed());
        }
        assert!(waits[0] < Duration::from_secs(2) && waits[11] >= LONGEST_DELAY, "{waits:?}");
        assert!(waits.windows(2).take(8).all(|pair| pair[0] < pair[1]), "{waits:?}");
        assert!(backlog.failed(target("a"), "forbidden", Duration::ZERO).is_news);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_ends_the_delay_of_its_object() {
        let backlog = Backlog::new(1);
        backlog.failed(target("a"), "missing", Duration::from_secs(1000));
        backlog.add(target("a"));
        let start = Instant::now();
        assert_eq!(backlog.next().await, target("a"));
        assert_eq!(start.elapsed(), Duration::ZERO);
        let later = tokio::time::timeout(Duration::from_secs(9999), backlog.next()).await;
        assert!(later.is_err(), "the object was added once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_ends_the_growth_of_the_delay() {
        let backlog = Backlog::new(1);
        for _ in 0..9 {
            backlog.failed(target("a"), "missing", Duration::ZERO);
        }
        backlog.succeeded(&target("a"));
        let delay = backlog.failed(target("a"), "missing", Duration::ZERO);
        assert!(delay.is_news && delay.time < Duration::from_secs(2));
    }
}
