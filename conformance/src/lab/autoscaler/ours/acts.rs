//! Acts on the platform of our server.

use sim::faults::{Action, Rule};
use sim::world::Command;

use super::super::subject::{Act, ActError};
use super::cluster_api::ManagementCluster;
use super::vcenter::{self, MemoryJournal};
use super::{Ours, Platform};

impl Ours {
    pub(super) async fn act(&self, act: &Act) -> Result<(), ActError> {
        match &self.platform {
            Platform::Supervisor => self.act_on_supervisor(act).await.map_err(ActError::Failed),
            Platform::Vcenter(journal) => {
                self.act_on_vcenter(journal, act).await.map_err(ActError::Failed)
            }
            Platform::ClusterApi(cluster) => self.act_on_cluster_api(cluster, act).await,
        }
    }

    /// Stops VM Operator or the tasks of the vCenter, so that no machine is made or destroyed, or lets
    /// them go on.
    ///
    /// # Errors
    ///
    /// If the platform is Cluster API, or the sim refuses the change.
    pub fn hold(&self, holds: bool) -> Result<(), String> {
        match &self.platform {
            Platform::Supervisor => self.reconcile(!holds),
            Platform::Vcenter(_) => vcenter::hold_tasks(&self.sim, holds),
            Platform::ClusterApi(_) => Err("Cluster API cannot be held".to_owned()),
        }
    }

    pub(super) async fn act_on_cluster_api(
        &self,
        cluster: &ManagementCluster,
        act: &Act,
    ) -> Result<(), ActError> {
        if matches!(act, Act::Release | Act::StartBackend) {
            self.rules.lock().expect("no holder panics").clear();
        }
        if matches!(act, Act::Restart) {
            self.kill();
            return self.run(self.seed).await.map_err(ActError::Failed);
        }
        if let Some(rule) = cluster.act(act).await? {
            let guard = self.sim.fault(rule).map_err(|err| ActError::Failed(err.to_string()))?;
            self.rules.lock().expect("no holder panics").push(guard);
        }
        Ok(())
    }

    pub(super) async fn act_on_vcenter(
        &self,
        journal: &MemoryJournal,
        act: &Act,
    ) -> Result<(), String> {
        let add = |rule: Rule| {
            let rule = self.sim.fault(rule).map_err(|err| err.to_string())?;
            self.rules.lock().expect("no holder panics").push(rule);
            Ok(())
        };
        match act {
            Act::RefuseCreations => {
                journal.refuse(true);
                Ok(())
            }
            Act::ExhaustCapacity => add(vcenter::failing_clones("InsufficientResourcesFault")),
            Act::BreakConfiguration => vcenter::remove_template(&self.sim),
            Act::HoldCreations => add(vcenter::failing_clones("TaskInProgress")),
            Act::SlowDeletions => self.hold(true),
            Act::Release => {
                self.rules.lock().expect("no holder panics").clear();
                vcenter::release(&self.sim, journal)
            }
            Act::DestroyMachine(id) => vcenter::destroy(&self.sim, id),
            Act::StopBackend => add(Rule::new("down", [Action::Reset]).on(sim::Face::Soap)),
            Act::StartBackend => {
                self.rules.lock().expect("no holder panics").clear();
                Ok(())
            }
            Act::Restart => {
                self.kill();
                self.run(self.seed).await
            }
        }
    }

    pub(super) fn fault(&self, rule: Rule) -> Result<(), String> {
        let rule = self.sim.fault(rule.on(sim::Face::Supervisor)).map_err(|err| err.to_string())?;
        self.rules.lock().expect("no holder panics").push(rule);
        Ok(())
    }

    pub(super) fn apply(&self, command: Command) -> Result<(), String> {
        self.sim.apply(command).map(drop).map_err(|err| format!("{err:?}"))
    }
}
