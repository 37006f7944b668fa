//! Requests for lists and machines whose results several callers share, and the lock around the
//! [`State`] of the backend.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use provider_vcenter::Chain;
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Tuning,
    api::{Api, ApiError, Meaning, Paging},
    machine::MachineName,
    state::State,
    view::{
        Changes,
        freshness::{Mode, Purpose, ViewEvent, WINDOW},
        listing::Listing,
        read::{ReadByName, ReadResult},
    },
};
use crate::{
    instances::changed_nodes::ChangedNodes,
    model::{NodeName, Unknown},
    mutant::{Active, mutant},
    telemetry::{ListReason, SupervisorMetrics},
};

/// Longest pause that the backend makes because a server asks for it.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of consecutive lists that the backend refuses because they are older than the
/// view.
const MAX_OLD_LISTS: u32 = 3;

/// Use of a new list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListUse {
    /// The list replaces the machines of the view.
    Replace,
    /// The list is evidence for a proof. A watch keeps the view, which only takes over what is new
    /// in the list.
    Evidence,
}

/// A question's request for a list. The question waits for `answer`.
struct ListRequest {
    /// Earliest start of the list.
    after: Instant,
    reason: ListReason,
    answer: oneshot::Sender<Result<Arc<Listing>, Unknown>>,
}

/// The client of the Supervisor, the state, the signals for the tasks, and the names of nodes to
/// announce to the node controller.
pub(super) struct Shared {
    pub(super) api: Api,
    pub(super) tuning: Tuning,
    pub(super) metrics: Arc<SupervisorMetrics>,
    pub(super) active: Active,
    state: Mutex<State>,
    /// Lock of the lists. One list runs at a time, and questions that waited for it use its result.
    listing: AsyncMutex<()>,
    /// Lists that questions have requested. [`serve_lists`](Self::serve_lists) makes them, so that
    /// a list outlives the question that waits for it.
    orders: mpsc::UnboundedSender<ListRequest>,
    ordered: AsyncMutex<mpsc::UnboundedReceiver<ListRequest>>,
    pub(super) news: ChangedNodes,
    /// Cancelled once the first list has arrived, or is known to be forbidden. Waiters wake in the
    /// order in which they began to wait.
    pub(super) synced: CancellationToken,
    /// Wakes the task that makes the requested reads and lists.
    pub(super) requests_wanted: Notify,
    /// Signals that a list for a question failed while the view is kept by lists, without a watch,
    /// so that the loop of the view retries.
    pub(super) retry_wanted: Notify,
}

impl Shared {
    pub(super) fn new(
        api: Api,
        tuning: Tuning,
        mode: Mode,
        metrics: Arc<SupervisorMetrics>,
        active: Active,
    ) -> Self {
        let deadline = Instant::now() + tuning.sync_timeout;
        let (orders, ordered) = mpsc::unbounded_channel();
        Self {
            api,
            tuning,
            metrics,
            active,
            state: Mutex::new(State::new(mode, deadline, active)),
            listing: AsyncMutex::new(()),
            orders,
            ordered: AsyncMutex::new(ordered),
            news: ChangedNodes::default(),
            synced: CancellationToken::new(),
            requests_wanted: Notify::new(),
            retry_wanted: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Changes the state, then announces the nodes that the change concerns.
    pub(super) fn change(&self, change: impl FnOnce(&mut State, Instant) -> Changes) {
        let names = {
            let mut state = self.lock();
            let changes = change(&mut state, Instant::now());
            state.concerned(&changes)
        };
        self.news.announce(names);
    }

    /// Applies an event to the freshness of the view.
    pub(super) fn fold(&self, happened: ViewEvent) {
        self.lock().freshness.fold(happened, Instant::now());
    }

    /// Returns a complete list that began at `after` or later: the last one, or a new one. With
    /// [`ListReason::Asked`], the last list suffices even if it began earlier, as long as the view
    /// is current. While the view's own list or watch fails, or within 5 to 20 s after a failed
    /// list, returns that failure without a new list.
    ///
    /// Concurrent callers wait for one list and share its result, even if it is a failure.
    ///
    /// Cancel safe: a running list continues and answers later questions. A long list would never
    /// be complete if it ended with the question that started it.
    pub(super) async fn list_since(
        &self,
        after: Instant,
        reason: ListReason,
    ) -> Result<Arc<Listing>, Unknown> {
        let stopped = || Unknown::Unavailable("the provider is stopping".to_owned());
        let (answer, answered) = oneshot::channel();
        self.orders.send(ListRequest { after, reason, answer }).map_err(|_| stopped())?;
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Makes the lists that questions have requested, one after the other. Never ends.
    pub(super) async fn serve_lists(&self) {
        let mut ordered = self.ordered.lock().await;
        while let Some(ListRequest { after, reason, answer }) = ordered.recv().await {
            if !answer.is_closed() {
                // The question may have timed out. The result of the list is in the state
                // nevertheless.
                let _ = answer.send(self.list_or_share(after, reason).await);
            }
        }
    }

    /// Returns the last list, the last failure or the trouble of the view if one of them answers
    /// the request. Otherwise makes a new list; where lists keep the view, at least [`WINDOW`]
    /// after the start of the last one.
    async fn list_or_share(
        &self,
        after: Instant,
        reason: ListReason,
    ) -> Result<Arc<Listing>, Unknown> {
        let _turn = self.listing.lock().await;
        let (mode, pause) = {
            let state = self.lock();
            let shares = !mutant!(self.active, ListPerNode);
            // A question that needs no proof accepts a list that has just arrived, however long the
            // list took.
            let is_enough = reason == ListReason::Asked
                && state.freshness.is_current(Purpose::Life, Instant::now());
            let evidence = state.evidence.as_ref();
            let evidence = evidence.filter(|it| shares && (is_enough || it.began_at >= after));
            if let Some(listing) = evidence {
                return Ok(Arc::clone(listing));
            }
            let failure = state.list_failure.as_ref();
            if let Some(why) = failure.and_then(|it| it.answer(after, Instant::now())) {
                return Err(why.clone());
            }
            if let Some(why) = state.freshness.trouble() {
                return Err(Unknown::Unavailable(why.to_owned()));
            }
            let mode = state.freshness.mode();
            let since = state.list_begun_at.map(|at| at.elapsed());
            let pause = since.map_or(Duration::ZERO, |since| WINDOW.saturating_sub(since));
            (mode, pause)
        };
        let take = if mode == Mode::Watch { ListUse::Evidence } else { ListUse::Replace };
        let is_patient = !mutant!(self.active, ListPerNode);
        if take == ListUse::Replace && !pause.is_zero() && is_patient {
            tokio::time::sleep(pause).await;
        }
        self.list(take, reason).await.map_err(|err| {
            if take == ListUse::Replace {
                self.fold(failure(&err));
                self.retry_wanted.notify_one();
            }
            unavailable(&err)
        })
    }

    /// Makes a new list, for the loop that keeps the view.
    pub(super) async fn list_anew(&self, reason: ListReason) -> Result<Arc<Listing>, ApiError> {
        let _turn = self.listing.lock().await;
        self.list(ListUse::Replace, reason).await
    }

    /// Makes a new list, and stores it or its failure. First waits until the pause ends that the
    /// server has requested, if any. The caller holds the `listing` lock.
    async fn list(&self, take: ListUse, reason: ListReason) -> Result<Arc<Listing>, ApiError> {
        // A pause that the server has asked for applies to every caller.
        let quiet_until = self.lock().quiet_until;
        if let Some(until) = quiet_until {
            tokio::time::sleep_until(until).await;
        }
        let began_at = Instant::now();
        self.lock().list_begun_at = Some(began_at);
        self.metrics.listed(reason);
        let listed = self.api.list(Paging::Pages).await;
        let listing = match listed.and_then(|listing| self.reject_if_older(listing, take)) {
            Ok(listing) => Arc::new(listing),
            Err(err) => {
                let why = unavailable(&err);
                let mut state = self.lock();
                state.note_list_failure(began_at, Instant::now(), why);
                if let Meaning::Throttled(wait) = err.meaning() {
                    state.quiet_until = Some(Instant::now() + wait.min(MAX_WAIT));
                }
                return Err(err);
            }
        };
        self.change(|state, now| {
            state.list_failure = None;
            state.evidence = Some(Arc::clone(&listing));
            match take {
                ListUse::Replace => {
                    state.freshness.fold(ViewEvent::Listed, now);
                    state.view.replace(&listing, now).unwrap_or_default()
                }
                ListUse::Evidence => {
                    let mut changes = Changes::default();
                    for machine in listing.machines() {
                        changes.extend(state.view.apply_read(machine, listing.began_at));
                    }
                    changes
                }
            }
        });
        if take == ListUse::Replace {
            self.note_synced();
        }
        Ok(listing)
    }

    /// Refuses a list that is older than the view and would replace it. After [`MAX_OLD_LISTS`] of
    /// them in a row, accepts the next one and drops the view: the Supervisor's store was restored,
    /// and its versions continue from an earlier number.
    fn reject_if_older(&self, listing: Listing, take: ListUse) -> Result<Listing, ApiError> {
        let state = &mut *self.lock();
        // A list as evidence may be older than the view, because the watch continues while the list
        // is read.
        if take == ListUse::Evidence {
            return Ok(listing);
        }
        if !state.view.is_ahead_of(&listing) {
            state.n_old_lists = 0;
            return Ok(listing);
        }
        state.n_old_lists += 1;
        if state.n_old_lists <= MAX_OLD_LISTS {
            return Err(ApiError::Old);
        }
        tracing::warn!(
            "the Supervisor keeps returning older lists of VirtualMachines than before; starting \
             over from the latest list"
        );
        state.n_old_lists = 0;
        state.view.start_over();
        Ok(listing)
    }

    /// Ends the wait for the first list, and announces the nodes that wait for it.
    fn note_synced(&self) {
        self.synced.cancel();
        let waiting = std::mem::take(&mut self.lock().waiting);
        self.news.announce(waiting);
    }

    /// Reads one machine by name for a node, and applies the answer to the view. Stores the result
    /// as the last read of the node, unless the node was deleted meanwhile.
    pub(super) async fn read(&self, node: &NodeName, machine: &MachineName) {
        let began_at = Instant::now();
        let why = self.lock().freshness.state(began_at);
        let answer = self.api.get(machine).await;
        let result = match &answer {
            Ok(Some(_)) => "found",
            Ok(None) => "not_found",
            Err(_) => "failed",
        };
        self.metrics.read(why, result);
        let read = match answer {
            Ok(Some(object)) => {
                let object = Arc::new(object);
                self.change(|state, _| match state.freshness.mode() {
                    // In this mode no list is possible, so only a read can show that the versions
                    // count from an earlier number again.
                    Mode::Get => state.view.apply_read_after_restore(&object, began_at),
                    Mode::Watch | Mode::Poll => state.view.apply_read(&object, began_at),
                });
                ReadResult::Seen
            }
            Ok(None) => {
                self.lock().view.not_found(machine, began_at);
                ReadResult::NotFound
            }
            Err(err) => {
                tracing::info!(machine = machine.as_str(), error = %Chain(&err), "reading the VirtualMachine failed; its Node stays as it is");
                ReadResult::Failed(unavailable(&err))
            }
        };
        let mut state = self.lock();
        if state.nodes.contains_key(node) {
            let machine = machine.clone();
            let reading = ReadByName { machine, began_at, ended_at: Instant::now(), read };
            state.reads.insert(node.to_owned(), reading);
        }
    }
}

/// Returns the event that a failed list is for [`Freshness`](super::view::freshness::Freshness).
pub(super) fn failure(err: &ApiError) -> ViewEvent {
    match err.meaning() {
        Meaning::Forbidden => ViewEvent::ListForbidden,
        _ => ViewEvent::Failed(Chain(err).to_string()),
    }
}

fn unavailable(err: &ApiError) -> Unknown {
    Unknown::Unavailable(Chain(err).to_string())
}
