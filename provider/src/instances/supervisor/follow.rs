//! Keeps the view: with one list and one watch, or with the requests that the Supervisor permits
//! instead.
//!
//! The loop finds out what the Supervisor permits by trying it. If a watch is forbidden, or keeps
//! failing while lists work, the backend makes lists instead: every five minutes, and when
//! questions need them. If lists are forbidden, the backend reads each machine by name; in the
//! instances mode `watch`, the loop retries the list instead. Except in the instances mode `poll`,
//! the loop tries a watch again every ten minutes. It tries a forbidden list again every minute,
//! because the backend can answer little without lists. If the resource version is too old for a
//! watch, the loop makes a new list, and the old view answers until that list has arrived.

use std::{sync::Arc, time::Duration};

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    api::{ApiError, Meaning},
    machine::MachineObject,
    shared::{MAX_WAIT, Shared, failure},
    view::{
        Changes,
        freshness::{Mode, POLL_IDLE, ViewEvent},
        listing::Listing,
    },
};
use crate::{cluster::WatchItem, mutant::mutant, supervisor::InstancesMode, telemetry::ListReason};

/// Interval of tries to watch after a watch was forbidden or kept failing.
const PROBE_WATCH: Duration = Duration::from_secs(600);
/// Interval of tries to list after a list was forbidden. It is short because an administrator often
/// grants the rights a little later than the provider starts.
const PROBE_LIST: Duration = Duration::from_secs(60);
/// Mean interval of the periodic lists beside a watch, in case the watch missed an event; varies by
/// a fifth.
const RELIST: Duration = Duration::from_secs(1800);
/// Longest silence of a watch before the loop opens it again, in case the connection died silently.
/// The server sends bookmarks about once a minute.
const IDLE: Duration = Duration::from_secs(75);
/// Minimum time after which the loop lets the server end a watch; the maximum is twice that.
const WATCH: Duration = Duration::from_secs(300);
/// Pause if the Supervisor does not serve the resource. An upgrade may change that.
const NOT_SERVED: Duration = Duration::from_secs(30);
/// Minimum pause after a failed periodic list; the maximum is twice that.
const RELIST_LATER: Duration = Duration::from_secs(300);
/// Lifetime below which the end of a watch counts as a failure. If the watch delivered an event,
/// the failure counts as the first one in a row.
const LIVED: Duration = Duration::from_secs(1);
/// Time for which a watch has to fail before the loop makes a list, to find out whether only the
/// watch fails. A node that appears meanwhile has to wait.
const FAILING: Duration = Duration::from_secs(30);
/// Known types of watch events, apart from `ERROR`.
const EVENTS: [&str; 4] = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"];

/// Maximum number of concurrent reads of machines for metadata, and of concurrent questions about
/// existence. More reads would only wait for each other, because the client limits its requests per
/// second.
pub(super) const AT_ONCE: usize = 8;

/// Keeps the view. Never ends.
pub(super) async fn run(shared: &Shared) {
    let jitter = |purpose: &str| Jitter::new(shared.tuning.seed, &format!("supervisor/{purpose}"));
    let (first, max) = (Duration::from_secs(1), Duration::from_secs(30));
    let mut follower = Follower {
        shared,
        backoff: Backoff::new(first, max, jitter("backoff")).with_full_jitter(),
        jitter: jitter("watch"),
        relist_at: Instant::now(),
        probe_at: Instant::now(),
        has_expired: false,
        lists_work: false,
        failing_since: None,
    };
    let mut next = Next::List(ListReason::Start);
    loop {
        next = match next {
            Next::List(reason) => follower.list(reason).await,
            Next::Watch(version) => follower.watch(version).await,
            Next::Relist(version) => follower.relist(version).await,
            Next::Rest => follower.rest().await,
        };
    }
}

/// Next step of the loop.
#[derive(Debug)]
enum Next {
    List(ListReason),
    /// Watch from this resource version on.
    Watch(String),
    /// Make a periodic list while the watch, which has delivered up to this version, continues.
    Relist(String),
    /// Wait until the list for a question fails, or the next list is due.
    Rest,
}

/// State of the loop between its steps.
struct Follower<'a> {
    shared: &'a Shared,
    backoff: Backoff,
    jitter: Jitter,
    /// Time of the next periodic list beside the watch.
    relist_at: Instant,
    /// Time of the next try to watch, or to list where lists are forbidden.
    probe_at: Instant,
    /// True if the last watch ended because its resource version was too old or an event had an
    /// unknown type, and no event has arrived since.
    has_expired: bool,
    /// True if a list succeeded after the watch had failed for [`FAILING`] or had been silent for
    /// too long, and no event has arrived since.
    lists_work: bool,
    /// Time of the first failure of the watch since it last worked; `None` while the watch works or
    /// the backend polls.
    failing_since: Option<Instant>,
}

impl Follower<'_> {
    /// Makes a list that replaces the view, and decides the next step.
    async fn list(&mut self, reason: ListReason) -> Next {
        let listed = self.shared.list_anew(reason).await;
        self.listed(listed, reason).await
    }

    /// Makes a periodic list. If the list fails for a reason that may pass, the watch continues. A
    /// list that is older than the view is not such a reason.
    async fn relist(&mut self, version: String) -> Next {
        let listed = self.shared.list_anew(ListReason::Periodic).await;
        if let Err(err) = &listed {
            let is_passing = matches!(err.meaning(), Meaning::Transient | Meaning::Throttled(_));
            // Lists that are older than the view may be right, so `listed` handles them as failures
            // that count.
            if is_passing && !matches!(err, ApiError::Old) {
                let later = self.jitter.stretch(RELIST_LATER, 1.0);
                tracing::warn!(error = %Chain(err), later = ?later, "periodic list of VirtualMachines failed; the watch continues");
                self.relist_at = Instant::now() + later;
                return Next::Watch(version);
            }
        }
        self.listed(listed, ListReason::Periodic).await
    }

    /// Decides the next step from the result of a list.
    async fn listed(&mut self, listed: Result<Arc<Listing>, ApiError>, reason: ListReason) -> Next {
        match listed {
            Ok(listing) => {
                self.lists_work |= reason == ListReason::Silent;
                // 24 to 36 minutes.
                self.relist_at = Instant::now() + self.jitter.stretch(RELIST.mul_f64(0.8), 0.5);
                let is_watched = match self.shared.tuning.mode {
                    InstancesMode::Poll | InstancesMode::V1 => false,
                    InstancesMode::Watch | InstancesMode::Auto => Instant::now() >= self.probe_at,
                };
                if is_watched {
                    return Next::Watch(listing.version.clone());
                }
                self.backoff.reset();
                Next::Rest
            }
            Err(err) => {
                let may_do_without = self.shared.tuning.mode != InstancesMode::Watch;
                if err.meaning() == Meaning::Forbidden && may_do_without {
                    if self.shared.lock().freshness.mode() != Mode::Get {
                        tracing::warn!(error = %Chain(&err), "the Supervisor forbids listing VirtualMachines; reading each by name");
                    }
                    self.shared.fold(failure(&err));
                    self.give_up_sync();
                    return Next::Rest;
                }
                self.shared.fold(ViewEvent::Failed(Chain(&err).to_string()));
                self.pause("listing VirtualMachines failed; retrying", &err).await;
                Next::List(reason)
            }
        }
    }

    /// Ends the wait of questions for the first list, because lists are forbidden, and schedules
    /// the next try to list.
    fn give_up_sync(&mut self) {
        self.probe_at = Instant::now() + PROBE_LIST;
        let waiting = {
            let mut state = self.shared.lock();
            state.sync_deadline = Instant::now();
            std::mem::take(&mut state.waiting)
        };
        self.shared.synced.cancel();
        self.shared.news.announce(waiting);
    }

    /// Logs a failure as `what`, and waits for the pause that the failure requires.
    async fn pause(&mut self, what: &'static str, err: &ApiError) {
        let pause = match err.meaning() {
            Meaning::NotServed => {
                tracing::error!(
                    error = %Chain(err),
                    "the Supervisor does not serve this version of VirtualMachines; check \
                     --vm-operator-api-version, and that the address leads to a Supervisor"
                );
                NOT_SERVED
            }
            // Even if the server asks for no pause or for one second each time, the pauses grow.
            Meaning::Throttled(wait) => wait.min(MAX_WAIT).max(self.backoff.next_pause()),
            _ => self.backoff.next_pause(),
        };
        tracing::warn!(error = %Chain(err), pause = ?pause, "{what}");
        sleep(pause).await;
    }

    /// Opens a watch, and applies its events until it ends, unless a list is due first.
    async fn watch(&mut self, mut version: String) -> Next {
        let now = Instant::now();
        let keeps_failing = self.failing_since.is_some_and(|since| now >= since + FAILING);
        if self.shared.lock().freshness.is_silent(now) || keeps_failing && !self.lists_work {
            return Next::List(ListReason::Silent);
        }
        if now >= self.relist_at {
            return Next::Relist(version);
        }
        let is_trusting = mutant!(self.shared.active, WatchStallUnnoticed);
        let lasting = if is_trusting { RELIST } else { self.jitter.stretch(WATCH, 1.0) };
        let mut events = match self.shared.api.watch(&version, lasting).await {
            Ok(events) => events,
            Err(err) => return self.after_failed_watch(version, &err).await,
        };
        self.shared.fold(ViewEvent::WatchOpened);
        let opened_at = Instant::now();
        let idle = if is_trusting { RELIST } else { IDLE };
        loop {
            let heard = tokio::select! {
                // Events come first, because applying them costs no request and a list does.
                biased;
                heard = events.next(idle) => heard,
                () = sleep_until(self.relist_at) => return Next::Relist(version),
            };
            match heard {
                Ok(WatchItem::Event(event)) => match self.apply_event(&event, &mut version) {
                    EventResult::Told => {
                        self.has_expired = false;
                        self.lists_work = false;
                        self.failing_since = None;
                        self.backoff.reset();
                    }
                    EventResult::Expired => return self.after_expiry().await,
                    EventResult::Refused(what) => return self.after_refusal(version, what).await,
                },
                Ok(WatchItem::End) if opened_at.elapsed() < LIVED => {
                    if let Some(next) =
                        self.switch_to_polling("the watch of VirtualMachines ended at once")
                    {
                        return next;
                    }
                    let pause = self.backoff.next_pause();
                    tracing::warn!(pause = ?pause, "watch of VirtualMachines ended at once; restarting it after a pause");
                    sleep(pause).await;
                    return Next::Watch(version);
                }
                Ok(WatchItem::End | WatchItem::Nothing) => {
                    self.failing_since = None;
                    return Next::Watch(version);
                }
                Err(err) => return self.after_failed_watch(version, &err.into()).await,
            }
        }
    }

    /// Decides the next step after the watch has delivered an error event, or an unreadable one.
    async fn after_refusal(&mut self, version: String, what: String) -> Next {
        if let Some(next) = self.switch_to_polling(&what) {
            return next;
        }
        self.shared.fold(ViewEvent::Failed(what.clone()));
        let pause = self.backoff.next_pause();
        tracing::warn!(error = %what, pause = ?pause, "watch of VirtualMachines returned an error event; restarting it");
        sleep(pause).await;
        Next::Watch(version)
    }

    /// Decides to make a new list because the resource version is too old, or an event has an
    /// unknown type. Pauses first if no event has arrived since the last such decision.
    async fn after_expiry(&mut self) -> Next {
        if mutant!(self.shared.active, StaleViewAfterGone) {
            self.shared.fold(ViewEvent::Heard);
            sleep(self.backoff.next_pause()).await;
            return Next::Watch(String::new());
        }
        if std::mem::replace(&mut self.has_expired, true) {
            let pause = self.backoff.next_pause();
            tracing::warn!(pause = ?pause, "the watch of VirtualMachines cannot continue from the last list; listing again after the pause");
            sleep(pause).await;
        }
        Next::List(ListReason::Expired)
    }

    /// Decides the next step after a watch failed.
    async fn after_failed_watch(&mut self, version: String, err: &ApiError) -> Next {
        match err.meaning() {
            Meaning::Expired => return self.after_expiry().await,
            Meaning::Forbidden if self.shared.tuning.mode == InstancesMode::Auto => {
                return self.poll(
                    &Chain(err).to_string(),
                    "the Supervisor forbids watching VirtualMachines; polling instead",
                );
            }
            _ => {
                if let Some(next) = self.switch_to_polling(&Chain(err).to_string()) {
                    return next;
                }
            }
        }
        let is_absence = mutant!(self.shared.active, CollectionNotFoundIsGone);
        if !is_absence || err.meaning() != Meaning::NotServed {
            self.shared.fold(ViewEvent::Failed(Chain(err).to_string()));
        }
        self.pause("watching VirtualMachines failed; retrying", err).await;
        if err.meaning() == Meaning::NotServed {
            Next::List(ListReason::Failed)
        } else {
            Next::Watch(version)
        }
    }

    /// Switches to polling if only the watch fails: a list has succeeded since the watch last
    /// delivered, and the watch has failed again. Otherwise only notes since when the watch fails,
    /// and returns `None`. The instances mode `watch` also polls then, because its operator asked
    /// to wait for a permission and not for a failing watch. A watch that stays forbidden in that
    /// mode counts as failing, too.
    fn switch_to_polling(&mut self, why: &str) -> Option<Next> {
        self.failing_since.get_or_insert_with(Instant::now);
        self.lists_work
            .then(|| self.poll(why, "watching VirtualMachines keeps failing; polling instead"))
    }

    /// Switches to polling, and logs `what` if the backend did not poll before.
    fn poll(&mut self, why: &str, what: &'static str) -> Next {
        self.failing_since = None;
        let is_new = self.shared.lock().freshness.mode() != Mode::Poll;
        if is_new {
            tracing::warn!(error = why, "{what}");
        }
        self.shared.fold(ViewEvent::WatchForbidden);
        self.probe_at = Instant::now() + PROBE_WATCH;
        Next::Rest
    }

    /// Applies one event of the watch. Sets `version` to that of the event, unless the result is
    /// `Expired` or `Refused`.
    fn apply_event(&self, event: &Value, version: &mut String) -> EventResult {
        let object = event.get("object").unwrap_or(&Value::Null);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "ERROR" {
            let code = object.get("code").and_then(Value::as_u64).unwrap_or_default();
            if code == 410 {
                return EventResult::Expired;
            }
            let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
            return EventResult::Refused(format!("an error event with {code}: {message}"));
        }
        if !EVENTS.contains(&kind) {
            // The event may be about a machine, and a watch from its version would not deliver it
            // again.
            tracing::warn!(
                kind,
                "the watch of VirtualMachines sent an event of an unknown type; listing \
                 VirtualMachines again"
            );
            return EventResult::Expired;
        }
        let seen = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let machine = MachineObject::from_json(object).ok();
        let is_odd = machine.as_ref().is_none_or(|machine| !machine.unreadable.is_empty());
        if is_odd && kind != "BOOKMARK" {
            self.shared.metrics.unreadable();
        }
        self.shared.change(|state, now| {
            state.freshness.fold(ViewEvent::Heard, now);
            match (kind, machine) {
                ("ADDED" | "MODIFIED", Some(machine)) => state.view.apply(machine, now),
                ("DELETED", Some(machine)) => {
                    state.view.remove(&machine, now);
                    Changes::default()
                }
                ("BOOKMARK", _) => {
                    state.view.advance(seen.unwrap_or_default());
                    Changes::default()
                }
                _ => {
                    tracing::warn!(kind, "the watch of VirtualMachines sent an event without the name of a machine; ignoring the event");
                    Changes::default()
                }
            }
        });
        if let Some(seen) = seen {
            seen.clone_into(version);
        }
        EventResult::Told
    }

    /// Waits until the next list is due, or until a list for a question fails, while the backend
    /// polls or reads machines by name. Questions request their lists themselves.
    async fn rest(&mut self) -> Next {
        loop {
            // Computed in each round, because a list for a question may have arrived meanwhile.
            let due = self.rests_until();
            if Instant::now() >= due {
                return Next::List(ListReason::Poll);
            }
            tokio::select! {
                biased;
                () = self.shared.retry_wanted.notified() => {
                    let is_troubled = self.shared.lock().freshness.trouble().is_some();
                    // If the list for a question was forbidden, the rights may follow soon, so the
                    // next try comes after the usual interval.
                    self.hasten_probe();
                    if is_troubled {
                        sleep(self.backoff.next_pause()).await;
                        return Next::List(ListReason::Failed);
                    }
                }
                () = sleep_until(due) => {}
            }
        }
    }

    /// Makes the next try to list come within [`PROBE_LIST`], if lists are forbidden.
    fn hasten_probe(&mut self) {
        if self.shared.lock().freshness.mode() == Mode::Get {
            self.probe_at = self.probe_at.min(Instant::now() + PROBE_LIST);
        }
    }

    /// Returns the time at which the next list is due.
    fn rests_until(&self) -> Instant {
        let (mode, listed_at) = {
            let state = self.shared.lock();
            (state.freshness.mode(), state.freshness.listed_at())
        };
        let poll_at = listed_at.map_or_else(Instant::now, |at| at + POLL_IDLE);
        match (mode, self.shared.tuning.mode) {
            (Mode::Get, _) => self.probe_at,
            // A try to watch begins with a list.
            (_, InstancesMode::Auto | InstancesMode::Watch) => poll_at.min(self.probe_at),
            _ => poll_at,
        }
    }
}

/// Result of applying an event.
enum EventResult {
    /// The event was a change of a machine, a bookmark, or an ignored event without a machine's
    /// name.
    Told,
    /// The resource version is too old, or the type of the event is unknown.
    Expired,
    /// The server sent an error event with another code than 410.
    Refused(String),
}

/// Makes the reads and lists that questions about metadata need, up to [`AT_ONCE`] reads at a time.
/// Never ends.
pub(super) async fn run_chores(shared: &Shared) {
    loop {
        shared.requests_wanted.notified().await;
        loop {
            let (reads, lists) = {
                let mut state = shared.lock();
                let mut reads = Vec::new();
                while reads.len() < AT_ONCE
                    && let Some(read) = state.wanted_reads.pop_first()
                {
                    reads.push(read);
                }
                let one_each = mutant!(shared.active, ListPerNode);
                let lists = if one_each {
                    state.wanted_lists.pop_first().into_iter().collect()
                } else {
                    std::mem::take(&mut state.wanted_lists)
                };
                (reads, lists)
            };
            if reads.is_empty() && lists.is_empty() {
                break;
            }
            if !lists.is_empty() {
                let after = Instant::now().checked_sub(super::view::freshness::WINDOW);
                let after = after.unwrap_or_else(Instant::now);
                // The result is in the state. The announced callers ask again.
                let listed = shared.list_since(after, ListReason::Asked).await;
                if let Err(why) = listed {
                    tracing::info!(error = %why, "listing VirtualMachines for waiting nodes failed; the nodes wait for a later list");
                }
                shared.news.announce(lists);
            }
            let reading = reads.iter().map(|(node, machine)| shared.read(node, machine));
            futures::future::join_all(reading).await;
            shared.news.announce(reads.into_iter().map(|(node, _)| node).collect());
        }
    }
}

/// Waits until the time to wait for the first list has passed. Then announces the nodes that still
/// wait, and ends.
pub(super) async fn run_deadline(shared: &Shared) {
    let deadline = shared.lock().sync_deadline;
    sleep_until(deadline).await;
    let waiting = std::mem::take(&mut shared.lock().waiting);
    shared.news.announce(waiting);
}
