//! Queue of the node controller's questions, for backends that answer them one after the other with calls.
//!
//! Such a backend keeps no view of machines. The desk announces an answer and keeps it until the controller takes it;
//! only then the next question starts, so that no answer grows old while the controller writes others. Repeating a
//! question in the meantime costs nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{sync::Notify, time::Instant};

use super::{ZoneWanted, news::News};
use crate::model::{Lookup, Metadata, NodeIdentity, Unknown};

/// The controller takes an answer within this time; a later question starts the calls again.
const WAITED: Duration = Duration::from_secs(10);
/// Time after the first take in which the same answer is given again: the controller repeats a question because of
/// events that arrived while it wrote.
const KEPT: Duration = Duration::from_secs(1);
/// Validity of an answer about the power state; the controller asks for it right after the question about existence.
const OFF_KEPT: Duration = Duration::from_secs(60);

/// Waiting questions, and answers that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    wanted: Notify,
    taken: Notify,
    news: News,
}

#[derive(Debug, Default)]
struct State {
    questions: BTreeMap<String, (NodeIdentity, ZoneWanted)>,
    /// The question being answered; repeating it starts no second one.
    asking: Option<(NodeIdentity, ZoneWanted)>,
    answers: BTreeMap<String, Answer>,
    off: BTreeMap<String, (Instant, Lookup<bool>)>,
}

#[derive(Debug)]
struct Answer {
    wanted: ZoneWanted,
    answer: Lookup<Metadata>,
    given_at: Instant,
    /// Time of the first take.
    taken_at: Option<Instant>,
}

impl Answer {
    fn is_good(&self, wanted: ZoneWanted) -> bool {
        self.wanted == wanted
            && match self.taken_at {
                None => self.given_at.elapsed() <= WAITED,
                Some(at) => at.elapsed() <= KEPT,
            }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Returns the answer if it is there; else notes the question and returns `Pending`.
    pub(super) fn ask(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        let mut state = self.lock();
        if let Some(kept) = state.answers.get_mut(&node.name).filter(|it| it.is_good(zone)) {
            if kept.taken_at.is_none() {
                kept.taken_at = Some(Instant::now());
                self.taken.notify_one();
            }
            return kept.answer.clone();
        }
        self.drop_answer(&mut state, &node.name);
        if state.asking.as_ref().is_some_and(|(asked, wanted)| asked == node && *wanted == zone) {
            return Lookup::Unknown(Unknown::Pending);
        }
        state.questions.insert(node.name.clone(), (node.clone(), zone));
        self.wanted.notify_one();
        Lookup::Unknown(Unknown::Pending)
    }

    /// Drops everything about a node that no longer exists.
    pub(super) fn forget(&self, name: &str) {
        let mut state = self.lock();
        state.questions.remove(name);
        state.asking.take_if(|(node, _)| node.name == name);
        state.off.remove(name);
        self.drop_answer(&mut state, name);
    }

    /// Drops an answer, and ends the wait for its take.
    fn drop_answer(&self, state: &mut State, name: &str) {
        if state.answers.remove(name).is_some_and(|it| it.taken_at.is_none()) {
            self.taken.notify_one();
        }
    }

    /// Takes the next question, which counts as being answered until [`Desk::answer`]. Supports one caller.
    pub(super) fn next(&self) -> Option<(NodeIdentity, ZoneWanted)> {
        let mut state = self.lock();
        let next = state.questions.pop_first().map(|(_, question)| question);
        state.asking.clone_from(&next);
        next
    }

    /// Waits until a question may be waiting.
    ///
    /// Cancel safe.
    pub(super) async fn wait(&self) {
        self.wanted.notified().await;
    }

    /// Ends the wait.
    pub(super) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Answers the current question, announces the answer, and waits up to [`WAITED`] until it is taken.
    pub(super) async fn answer(&self, name: String, wanted: ZoneWanted, answer: Lookup<Metadata>) {
        {
            let mut state = self.lock();
            // The node was forgotten meanwhile.
            if state.asking.take().is_none() {
                return;
            }
            // Discards the signal of an earlier answer that was taken after its wait had ended.
            let _ = self.taken.notified().now_or_never();
            let answer = Answer { wanted, answer, given_at: Instant::now(), taken_at: None };
            state.answers.insert(name.clone(), answer);
        }
        self.news.announce(BTreeSet::from([name]));
        if tokio::time::timeout(WAITED, self.taken.notified()).await.is_err() {
            tracing::debug!("nobody came for an answer");
        }
    }

    /// Notes whether a machine is off, for the next [`Desk::take_off`].
    pub(super) fn note_off(&self, name: &str, off: Lookup<bool>) {
        self.lock().off.insert(name.to_owned(), (Instant::now(), off));
    }

    /// Takes the noted power state; `NotSeen` if none was noted or it is older than [`OFF_KEPT`].
    pub(super) fn take_off(&self, name: &str) -> Lookup<bool> {
        match self.lock().off.remove(name) {
            Some((at, off)) if at.elapsed() <= OFF_KEPT => off,
            _ => Lookup::Unknown(Unknown::NotSeen),
        }
    }

    /// Waits for announced answers; see [`News::take`].
    pub(super) async fn changed(&self) -> BTreeSet<String> {
        self.news.take().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeIdentity {
        NodeIdentity {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            provider_id: None,
            system_uuid: None,
            reference: None,
            confirmed_gone: false,
        }
    }

    /// Time that the answer about node `a` waits to be taken, if `meanwhile` runs after one second.
    async fn waited(meanwhile: impl FnOnce(&Desk)) -> Duration {
        let desk = Desk::default();
        let _ = desk.ask(&node("a"), ZoneWanted::No);
        assert!(desk.next().is_some());
        let start = Instant::now();
        let answer = Lookup::Unknown(Unknown::NotSeen);
        let then = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            meanwhile(&desk);
        };
        tokio::join!(desk.answer("a".to_owned(), ZoneWanted::No, answer), then);
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_delays_the_next_question_until_it_is_taken_dropped_or_too_old() {
        let second = Duration::from_secs(1);
        assert_eq!(waited(|desk| _ = desk.ask(&node("a"), ZoneWanted::No)).await, second);
        assert_eq!(waited(|desk| desk.forget("a")).await, second);
        assert_eq!(waited(|desk| _ = desk.ask(&node("a"), ZoneWanted::Yes)).await, second);
        assert_eq!(waited(|desk| desk.forget("b")).await, WAITED);
    }

    #[tokio::test(start_paused = true)]
    async fn wake_ends_the_wait_for_questions() {
        let desk = Desk::default();
        let soon = |desk| tokio::time::timeout(WAITED, Desk::wait(desk));
        assert!(soon(&desk).await.is_err());
        desk.wake();
        assert!(soon(&desk).await.is_ok());
    }
}
