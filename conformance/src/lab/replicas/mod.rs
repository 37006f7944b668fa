//! Starts, stops, kills and restarts replicas.

pub(super) mod election;
pub(super) mod logs;
pub(super) mod outside;
pub(super) mod process;
pub(super) mod running;

use sim::world::{Time, World};

use super::{Exit, Lab, LabEvent, MOST_IN_VAIN, Replica, Running, StartResult, provider};

impl Lab {
    /// Starts the replica with this index, unless it runs. If it cannot be started, notes the
    /// reason in the ledger. Does not start a process again that is the sixth in a row to end
    /// before its first call.
    pub async fn start(&mut self, index: usize) {
        if self.replicas.iter().any(|replica| replica.index() == index) {
            return;
        }
        self.note(LabEvent::Starts(index));
        let Some(host) = &self.host else {
            let replica = Replica::start(
                &self.sim,
                &self.scenario,
                &self.stage,
                (&self.token, &self.files),
                &self.guard,
                index,
            );
            return self.replicas.push(Running::Here(replica));
        };
        match host.start(&self.sim, &self.scenario, index).await {
            Ok((process, StartResult::Called)) => {
                self.in_vain = 0;
                self.replicas.push(Running::Process(process));
            }
            Ok((process, StartResult::Silent(said))) => {
                self.note(LabEvent::Silent(index, said));
                self.replicas.push(Running::Process(process));
            }
            Ok((_, StartResult::Ended)) if self.in_vain + 1 >= MOST_IN_VAIN => {
                let last = host.logs().last_line();
                self.refuse(format!(
                    "replica {index} ended before its first call {MOST_IN_VAIN} times in a row: {last}"
                ));
            }
            Ok((process, StartResult::Ended)) => {
                let last = host.logs().last_line();
                self.in_vain += 1;
                self.note(LabEvent::EndedInVain(index, last));
                self.replicas.push(Running::Process(process));
            }
            // The refusal makes the case inconclusive, because a judge has nothing to judge without
            // a replica.
            Err(error) => self.refuse(format!("replica {index} does not start: {error:#}")),
        }
    }

    /// Asks a replica to stop and waits for its end. Does nothing if the replica does not run.
    pub async fn stop(&mut self, index: usize) {
        if let Some(replica) = self.take(index) {
            self.note(LabEvent::ToldToStop(index));
            self.scrapes.extend(self.scrape(&replica));
            let exit = replica.stop().await;
            self.note(LabEvent::Ended(index, exit.clone()));
            self.note_exit(exit, self.world().now());
        }
    }

    pub(super) fn note_exit(&mut self, exit: Exit, at: Time) {
        self.exits.push(exit);
        self.ended_at.push(at);
    }

    /// Kills a replica. Does nothing if the replica does not run.
    pub async fn crash(&mut self, index: usize) {
        if let Some(replica) = self.take(index) {
            self.note(LabEvent::Killed(index));
            replica.kill().await;
            self.note_exit(Exit::Killed, self.world().now());
        }
    }

    /// Returns the index of the replica that leads: the holder of the lease or, without leader
    /// election, the first running replica. Returns `None` if no running replica leads.
    pub fn leader(&self) -> Option<usize> {
        if !self.scenario.provider.elects() {
            return self.replicas.first().map(Running::index);
        }
        let holder = self.world().read(|world| provider::holder(World::state(world)))?;
        self.replicas.iter().find(|it| it.is_called(&holder, self.ledger())).map(Running::index)
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Running> {
        let at = self.replicas.iter().position(|replica| replica.index() == index)?;
        Some(self.replicas.remove(at))
    }

    /// Notes replicas that ended by themselves, and restarts them unless the scenario forbids it. A
    /// replica also ends by itself when it loses its lease.
    pub(super) async fn restart_ended(&mut self) {
        let (now, mut ended) = (self.world().now(), Vec::new());
        for replica in &mut self.replicas {
            if let Some((exit, at)) = replica.ended(now) {
                ended.push((replica.index(), exit, at));
            }
        }
        for (index, exit, at) in ended {
            self.note(LabEvent::EndedByItself(index, exit.clone()));
            self.note_exit(exit, at);
            self.replicas.retain(|replica| replica.index() != index);
            if !self.scenario.provider.once {
                self.start(index).await;
            }
        }
    }
}
