//! Queue of the node controller's questions about metadata, for backends that answer them one after
//! the other with calls.
//!
//! These backends (`v1`) keep no view of machines. The queue announces an answer and keeps it until
//! the controller takes it, for up to 10 s. Only then the backend begins with the next question, so
//! that no answer grows old while the controller writes others. A question costs no call if the
//! backend is answering the same question, or if the queue has its answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{sync::Notify, time::Instant};

use super::{ZoneWanted, changed_nodes::ChangedNodes};
use crate::model::{Lookup, Metadata, NodeIdentity, NodeName, Unknown};

/// Time within which the controller has to take an answer. A later question makes the backend
/// answer anew.
const TAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after the first take in which the queue returns the same answer again. The controller
/// repeats a question if events arrived while it wrote.
const REPEAT_WINDOW: Duration = Duration::from_secs(1);
/// Validity of an answer about the power state. The controller needs it right after the answer
/// about existence.
const POWER_VALID_FOR: Duration = Duration::from_secs(60);

/// Waiting questions, the question that the backend is answering, and recent answers.
#[derive(Debug, Default)]
pub(super) struct QuestionQueue {
    state: Mutex<State>,
    wanted: Notify,
    taken: Notify,
    news: ChangedNodes,
}

#[derive(Debug, Default)]
struct State {
    questions: BTreeMap<NodeName, (NodeIdentity, ZoneWanted)>,
    /// The question that the backend is answering, if any. Repeating it does not queue it a second
    /// time.
    asking: Option<(NodeIdentity, ZoneWanted)>,
    answers: BTreeMap<NodeName, Answer>,
    /// Node whose answer [`QuestionQueue::answer`] waits for the controller to take, if any.
    awaited: Option<NodeName>,
    off: BTreeMap<NodeName, (Instant, Lookup<bool>)>,
}

#[derive(Debug)]
struct Answer {
    wanted: ZoneWanted,
    answer: Lookup<Metadata>,
    given_at: Instant,
    /// Time at which the controller first took the answer; `None` before.
    taken_at: Option<Instant>,
}

impl Answer {
    fn is_good(&self, wanted: ZoneWanted) -> bool {
        self.wanted == wanted
            && match self.taken_at {
                None => self.given_at.elapsed() <= TAKE_TIMEOUT,
                Some(at) => at.elapsed() <= REPEAT_WINDOW,
            }
    }
}

impl QuestionQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Returns the answer if the queue has a valid one. Otherwise returns `Pending`, and queues the
    /// question unless the backend is answering it.
    pub(super) fn ask(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        let mut state = self.lock();
        if let Some(kept) = state.answers.get_mut(&node.name).filter(|it| it.is_good(zone)) {
            let is_first_take = kept.taken_at.is_none();
            kept.taken_at.get_or_insert_with(Instant::now);
            let answer = kept.answer.clone();
            if is_first_take {
                self.end_wait(&state, &node.name);
            }
            return answer;
        }
        self.drop_answer(&mut state, &node.name);
        if state.asking.as_ref().is_some_and(|(asked, wanted)| asked == node && *wanted == zone) {
            return Lookup::Unknown(Unknown::Pending);
        }
        state.questions.insert(node.name.clone(), (node.clone(), zone));
        self.wanted.notify_one();
        Lookup::Unknown(Unknown::Pending)
    }

    /// Drops the question and the answers of a node that no longer exists.
    pub(super) fn forget(&self, name: &NodeName) {
        let mut state = self.lock();
        state.questions.remove(name);
        state.asking.take_if(|(node, _)| node.name == *name);
        state.off.remove(name);
        self.drop_answer(&mut state, name);
    }

    /// Drops an answer. If the controller has not taken it, also ends the wait of
    /// [`QuestionQueue::answer`] for it.
    fn drop_answer(&self, state: &mut State, name: &NodeName) {
        if state.answers.remove(name).is_some_and(|it| it.taken_at.is_none()) {
            self.end_wait(state, name);
        }
    }

    /// Ends the wait of [`QuestionQueue::answer`] if it waits for the answer about this node.
    fn end_wait(&self, state: &State, name: &NodeName) {
        if state.awaited.as_ref() == Some(name) {
            self.taken.notify_one();
        }
    }

    /// Takes the waiting question of the node whose name sorts first; `None` if no question waits.
    /// The question counts as being answered until [`QuestionQueue::answer`] or
    /// [`QuestionQueue::forget`]. Supports one caller.
    pub(super) fn next(&self) -> Option<(NodeIdentity, ZoneWanted)> {
        let mut state = self.lock();
        let next = state.questions.pop_first().map(|(_, question)| question);
        state.asking.clone_from(&next);
        next
    }

    /// Waits until a question arrives or [`QuestionQueue::wake`] is called. The queue may be empty
    /// then.
    ///
    /// Cancel safe.
    pub(super) async fn wait(&self) {
        self.wanted.notified().await;
    }

    /// Ends the current or next [`QuestionQueue::wait`].
    pub(super) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Stores the answer to the current question, announces it, and waits up to [`TAKE_TIMEOUT`]
    /// until the controller takes it or the queue drops it. Does nothing if the node was dropped
    /// meanwhile.
    pub(super) async fn answer(
        &self,
        name: NodeName,
        wanted: ZoneWanted,
        answer: Lookup<Metadata>,
    ) {
        {
            let mut state = self.lock();
            // The controller has dropped the node meanwhile.
            if state.asking.take().is_none() {
                return;
            }
            // Discards the signal of an earlier answer that was taken after its wait had ended.
            let _ = self.taken.notified().now_or_never();
            let answer = Answer { wanted, answer, given_at: Instant::now(), taken_at: None };
            state.answers.insert(name.clone(), answer);
            state.awaited = Some(name.clone());
        }
        self.news.announce(BTreeSet::from([name]));
        if tokio::time::timeout(TAKE_TIMEOUT, self.taken.notified()).await.is_err() {
            tracing::debug!("the controller did not take an answer in time; continuing");
        }
    }

    /// Stores whether a machine is off, for the next [`QuestionQueue::take_power`].
    pub(super) fn store_power(&self, name: &NodeName, off: Lookup<bool>) {
        self.lock().off.insert(name.clone(), (Instant::now(), off));
    }

    /// Takes the stored answer about the power state; `NotSeen` if none is stored or it is older
    /// than [`POWER_VALID_FOR`].
    pub(super) fn take_power(&self, name: &NodeName) -> Lookup<bool> {
        match self.lock().off.remove(name) {
            Some((at, off)) if at.elapsed() <= POWER_VALID_FOR => off,
            _ => Lookup::Unknown(Unknown::NotSeen),
        }
    }

    /// Waits for announced answers and returns the names of their nodes; see
    /// [`ChangedNodes::take`].
    pub(super) async fn changed(&self) -> BTreeSet<NodeName> {
        self.news.take().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeIdentity {
        NodeIdentity {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: None,
            system_uuid: None,
            reference: None,
            confirmed_gone: false,
        }
    }

    /// Returns how long [`QuestionQueue::answer`] waits for the take of an answer about node `a` if
    /// `meanwhile` runs after one second.
    async fn waited(meanwhile: impl FnOnce(&QuestionQueue)) -> Duration {
        let desk = QuestionQueue::default();
        let _ = desk.ask(&node("a"), ZoneWanted::No);
        assert!(desk.next().is_some());
        let start = Instant::now();
        let answer = Lookup::Unknown(Unknown::NotSeen);
        let then = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            meanwhile(&desk);
        };
        tokio::join!(desk.answer("a".into(), ZoneWanted::No, answer), then);
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_delays_the_next_question_until_it_is_taken_dropped_or_too_old() {
        let second = Duration::from_secs(1);
        assert_eq!(waited(|desk| _ = desk.ask(&node("a"), ZoneWanted::No)).await, second);
        assert_eq!(waited(|desk| desk.forget(&"a".into())).await, second);
        assert_eq!(waited(|desk| _ = desk.ask(&node("a"), ZoneWanted::Yes)).await, second);
        assert_eq!(waited(|desk| desk.forget(&"b".into())).await, TAKE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_answer_about_another_node_does_not_end_the_wait() {
        for drop_old in [
            |desk: &QuestionQueue| desk.forget(&"old".into()),
            |desk: &QuestionQueue| _ = desk.ask(&node("old"), ZoneWanted::Yes),
        ] {
            let desk = QuestionQueue::default();
            let answer = |name: &str| {
                let answer = Lookup::Unknown(Unknown::NotSeen);
                desk.answer(name.into(), ZoneWanted::No, answer)
            };
            // The controller never takes this answer.
            let _ = desk.ask(&node("old"), ZoneWanted::No);
            assert!(desk.next().is_some());
            answer("old").await;

            let _ = desk.ask(&node("a"), ZoneWanted::No);
            assert!(desk.next().is_some());
            let start = Instant::now();
            let then = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop_old(&desk);
            };
            tokio::join!(answer("a"), then);
            assert_eq!(start.elapsed(), TAKE_TIMEOUT);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wake_ends_the_wait_for_questions() {
        let desk = QuestionQueue::default();
        let soon = |desk| tokio::time::timeout(TAKE_TIMEOUT, QuestionQueue::wait(desk));
        assert!(soon(&desk).await.is_err());
        desk.wake();
        assert!(soon(&desk).await.is_ok());
    }
}
