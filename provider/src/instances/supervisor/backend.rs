//! Answers the controllers' questions from the view, after requests where the view is not current
//! enough.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{
    Tuning,
    answers::{self, Answer, Match},
    api::Api,
    follow::{self, AT_ONCE},
    machine::MachineName,
    proof::{self, NEVER_MATCHED, Verdict},
    shared::Shared,
    view::freshness::{Mode, WINDOW},
};
use crate::{
    instances::{Instances, ZoneWanted},
    model::{Lookup, Metadata, NodeIdentity, NodeName, Unknown, ViewState},
    mutant::{Active, mutant},
    supervisor::InstancesMode,
    tasks::Tasks,
    telemetry::{ListReason, SupervisorReading, Telemetry},
};

/// Maximum age of the last read of a machine by name right before its node is deleted. If that read
/// is older, the backend reads the machine again.
const JUST_NOW: Duration = Duration::from_secs(1);
/// Maximum number of rounds in which the backend tries to answer one question, and again for its
/// proof. Each round gives the answer, or makes the read or list that must come first.
const MAX_ROUNDS: u32 = 4;

/// The Supervisor backend, for the machines of one namespace. Clones share its state.
#[derive(Clone)]
pub struct SupervisorInstances {
    shared: Arc<Shared>,
}

impl SupervisorInstances {
    /// Creates a backend that sends its requests with `client`, which has the address and the
    /// token. The backend sends no request by itself before [`SupervisorInstances::spawn`].
    ///
    /// The caller must run inside a tokio runtime with time enabled.
    pub(crate) fn new(
        client: kube::Client,
        namespace: &str,
        tuning: Tuning,
        telemetry: &Telemetry,
        active: Active,
    ) -> Self {
        let mode = match tuning.mode {
            InstancesMode::Auto | InstancesMode::Watch => Mode::Watch,
            InstancesMode::Poll | InstancesMode::V1 => Mode::Poll,
        };
        let counter = telemetry.supervisor_requests();
        let api = Api::new(client, namespace, tuning.version, counter, active);
        let metrics = telemetry.supervisor();
        Self { shared: Arc::new(Shared::new(api, tuning, mode, metrics, active)) }
    }

    /// Starts the tasks that keep the view and make requests, and the time to wait for the first
    /// list.
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        // The time to wait for the first list counts from now, because the provider may have waited
        // for its lease until now.
        self.shared.lock().sync_deadline = Instant::now() + self.shared.tuning.sync_timeout;
        let span = |task: &str| tracing::info_span!("supervisor", task);
        let shared = Arc::clone(&self.shared);
        tasks.spawn_droppable(span("view"), async move { follow::run(&shared).await });
        let shared = Arc::clone(&self.shared);
        tasks.spawn_droppable(span("lists"), async move { shared.serve_lists().await });
        let shared = Arc::clone(&self.shared);
        tasks.spawn_droppable(span("chores"), async move { follow::run_chores(&shared).await });
        let shared = Arc::clone(&self.shared);
        tasks.spawn_droppable(span("deadline"), async move { follow::run_deadline(&shared).await });
    }

    /// Returns the state of the view now.
    pub fn view_state(&self) -> ViewState {
        self.shared.lock().freshness.state(Instant::now())
    }

    /// True if the view works. After a proof that was impossible because no node had been matched
    /// to a machine, the view counts as not working until a node is matched.
    pub fn is_well(&self) -> bool {
        self.reading().outcome().is_ok()
    }

    /// Returns the state of the view for metrics and readiness.
    pub(crate) fn reading(&self) -> SupervisorReading {
        let state = self.shared.lock();
        let now = Instant::now();
        SupervisorReading {
            state: state.freshness.state(now),
            trouble: state.freshness.trouble().map(str::to_owned),
            n_machines: state.view.len(),
            n_duplicates: state.view.n_duplicates(),
            last_contact_age: state.freshness.age(now),
            lost: (state.was_proof_impossible && !state.any_matched).then_some(NEVER_MATCHED),
        }
    }

    /// If no node has been matched to a machine, notes that a proof was impossible because of that,
    /// and logs it once.
    fn note_lost(&self) {
        let is_news = {
            let mut state = self.shared.lock();
            !state.any_matched && !std::mem::replace(&mut state.was_proof_impossible, true)
        };
        if is_news {
            tracing::error!("{NEVER_MATCHED}; no node is deleted");
        }
    }

    /// Counts and logs, once per node, that the machine with the node's name has another UUID than
    /// the node, or none.
    fn note_mismatch(&self, node: &NodeIdentity) {
        let is_news = {
            let mut state = self.shared.lock();
            let tracked = state.nodes.get_mut(&node.name);
            tracked.is_some_and(|it| !std::mem::replace(&mut it.mismatch_logged, true))
        };
        if is_news {
            self.shared.metrics.mismatched();
            tracing::warn!(
                node = %node.name,
                provider_id = node.provider_id.as_deref().unwrap_or_default(),
                "the VirtualMachine with the node's name does not have the UUID of the node's provider ID; publishing its addresses nevertheless, as with --instances-mode=v1"
            );
        }
    }

    /// Answers whether the machine exists, after the requests that the answer needs.
    async fn exists(&self, node: &NodeIdentity, proof_after: Instant) -> Lookup<()> {
        self.shared.lock().track(node);
        for _ in 0..MAX_ROUNDS {
            let (answer, deadline) = {
                let state = self.shared.lock();
                let asked = state.question(node, Instant::now());
                (answers::exists(asked), state.sync_deadline)
            };
            match answer {
                Answer::Found(()) => return Lookup::Found(()),
                Answer::Unknown(Unknown::NotOurs(_))
                    if mutant!(self.shared.active, ForeignIdIsGone) =>
                {
                    return Lookup::Gone { proved_at: Instant::now(), matched: true };
                }
                Answer::Unknown(why) => return Lookup::Unknown(why),
                Answer::NeedsProof if mutant!(self.shared.active, ProofFromView) => {
                    return Lookup::Gone { proved_at: Instant::now(), matched: true };
                }
                Answer::NeedsProof => return self.prove(node, proof_after).await,
                Answer::NeedsSync => {
                    // Ends when the list has arrived or the time to wait for it has passed; the
                    // next round shows which.
                    let _ = tokio::time::timeout_at(deadline, self.shared.synced.cancelled()).await;
                }
                Answer::NeedsGet(machine) => self.shared.read(&node.name, &machine).await,
                Answer::NeedsList => {
                    let after = earlier_by_window(Instant::now());
                    if let Err(why) = self.shared.list_since(after, ListReason::Asked).await {
                        return Lookup::Unknown(why);
                    }
                }
            }
        }
        Lookup::Unknown(Unknown::Unavailable("the Supervisor did not answer in time".to_owned()))
    }

    /// Answers by a proof whose evidence began at `after` or later, and first makes the requests
    /// that the proof needs: `Gone`, `Found`, or the reason why neither can be proved.
    async fn prove(&self, node: &NodeIdentity, after: Instant) -> Lookup<()> {
        for _ in 0..MAX_ROUNDS {
            let (verdict, matched) = {
                let state = self.shared.lock();
                let claim = state.claim(node, after, Instant::now());
                let verdict = if state.freshness.mode() == Mode::Get {
                    proof::by_read(&claim, state.reads.get(&node.name))
                } else {
                    proof::by_list(&claim, state.evidence.as_deref())
                };
                (verdict, claim.matched)
            };
            match verdict {
                Verdict::NeedsList { after } => {
                    if let Err(why) = self.shared.list_since(after, ListReason::Proof).await {
                        self.shared.metrics.proved("failed");
                        return Lookup::Unknown(why);
                    }
                }
                Verdict::NeedsGet { .. } => {
                    let machine = MachineName::from(self.shared.lock().machine_of(node));
                    self.shared.read(&node.name, &machine).await;
                }
                Verdict::Present => {
                    self.shared.metrics.proved("present");
                    return Lookup::Found(());
                }
                Verdict::Gone { proved_at } => {
                    self.shared.metrics.proved("gone");
                    return Lookup::Gone { proved_at, matched };
                }
                Verdict::Unknown(why) => {
                    self.shared.metrics.proved("unknown");
                    self.note_lost();
                    return Lookup::Unknown(why);
                }
            }
        }
        Lookup::Unknown(Unknown::Unavailable(
            "the answers of the Supervisor about the node's machine keep changing".to_owned(),
        ))
    }

    /// Reads the node's machine by name, unless a read of the last second suffices. Returns the
    /// reason if the read contradicts the proof that the machine is gone, or fails; `None` if the
    /// Node may be deleted.
    async fn last_look(&self, node: &NodeIdentity) -> Option<Unknown> {
        let machine = {
            let state = self.shared.lock();
            let active = self.shared.active;
            if mutant!(active, ProofFromView) {
                return None;
            }
            if mutant!(active, ForeignIdIsGone) {
                return None;
            }
            let machine = state.machine_of(node);
            // If lists are forbidden, the proof was itself a read by name.
            if let Some(reading) = state.reads.get(&node.name)
                && reading.machine.as_str() == machine
                && reading.began_at.elapsed() <= JUST_NOW
            {
                return proof::objection(node, reading, &state.view);
            }
            MachineName::from(machine)
        };
        self.shared.read(&node.name, &machine).await;
        let state = self.shared.lock();
        // The node was deleted meanwhile, so its read was not stored.
        let Some(reading) = state.reads.get(&node.name) else { return Some(Unknown::Pending) };
        proof::objection(node, reading, &state.view)
    }
}

/// Returns the time [`WINDOW`] before `now`.
fn earlier_by_window(now: Instant) -> Instant {
    now.checked_sub(WINDOW).unwrap_or(now)
}

impl Instances for SupervisorInstances {
    fn observe(&self, node: &NodeIdentity) {
        self.shared.lock().observe(node);
    }

    fn forget(&self, name: &NodeName) {
        self.shared.lock().forget(name);
    }

    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        let answer = {
            let mut state = self.shared.lock();
            state.track(node);
            let asked = state.question(node, Instant::now());
            let answer = answers::metadata(asked, zone, self.shared.tuning.addresses);
            let name = node.name.clone();
            match &answer {
                Answer::NeedsSync => {
                    state.waiting.insert(name);
                }
                Answer::NeedsGet(machine) => {
                    let machine = machine.clone();
                    state.wanted_reads.insert(name, machine);
                }
                Answer::NeedsList => {
                    state.wanted_lists.insert(name);
                }
                Answer::Found(_) | Answer::Unknown(_) | Answer::NeedsProof => {}
            }
            answer
        };
        match answer {
            Answer::Found((metadata, how)) => {
                if how == Match::ByNameOnly {
                    self.note_mismatch(node);
                }
                Lookup::Found(metadata)
            }
            Answer::Unknown(why) => Lookup::Unknown(why),
            Answer::NeedsProof => Lookup::Unknown(Unknown::NotSeen),
            Answer::NeedsSync => Lookup::Unknown(Unknown::Pending),
            Answer::NeedsGet(_) | Answer::NeedsList => {
                self.shared.requests_wanted.notify_one();
                Lookup::Unknown(Unknown::Pending)
            }
        }
    }

    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>> {
        Box::pin(self.exists(node, proof_after))
    }

    fn recheck_absence<'a>(&'a self, node: &'a NodeIdentity) -> BoxFuture<'a, Option<Unknown>> {
        Box::pin(self.last_look(node))
    }

    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool> {
        let mut state = self.shared.lock();
        state.track(node);
        match answers::shutdown(state.question(node, Instant::now())) {
            Answer::Found(is_off) => Lookup::Found(is_off),
            Answer::Unknown(why) => Lookup::Unknown(why),
            // The controller asks about existence first, and that answer is recent enough.
            Answer::NeedsProof => Lookup::Unknown(Unknown::NotSeen),
            Answer::NeedsSync | Answer::NeedsGet(_) | Answer::NeedsList => {
                let why = "the view of the VirtualMachines is not current".to_owned();
                Lookup::Unknown(Unknown::Unavailable(why))
            }
        }
    }

    /// Returns `AT_ONCE`. Where the backend reads machines by name, each answer costs a request,
    /// and the client sends five requests per second after a burst of ten.
    fn max_concurrent_exists(&self) -> usize {
        AT_ONCE
    }

    fn n_missing(&self) -> usize {
        self.shared.lock().n_missing(Instant::now())
    }

    fn changed(&self) -> BoxFuture<'_, BTreeSet<NodeName>> {
        Box::pin(self.shared.news.take())
    }
}
