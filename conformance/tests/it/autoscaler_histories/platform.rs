//! The platforms of a history: a Supervisor, and a vCenter with a journal.

use std::time::Duration;

use conformance::lab::autoscaler::{Act, MemoryJournal, Ours};
use sim::RuleGuard;
use sim::faults::{Action, KubeStatus, Rule};
use sim::world::objects::GroupResource;
use sim::world::{ControlPlane, World};

use super::super::{autoscaler, autoscaler_vcenter};
use super::draw::{Failure, Of};
use super::judge::{Bounds, Ids};

/// Time of a call to a slow platform.
const SLOW: Duration = Duration::from_millis(20);

/// Platform of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Platform {
    Supervisor,
    Vcenter,
}

/// A failure or slowness, which ends when this value is dropped.
pub(super) enum Disturbance {
    Calls { _rule: RuleGuard },
    Journal(MemoryJournal),
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        if let Self::Journal(journal) = self {
            journal.refuse(false);
            journal.lose_answers(false);
            journal.slow_down(Duration::ZERO);
        }
    }
}

impl Platform {
    /// Starts the server with the groups `workers` and `others`.
    pub(super) async fn start(self) -> Result<Ours, String> {
        let machine = match self {
            Self::Supervisor => autoscaler::MACHINE,
            Self::Vcenter => autoscaler_vcenter::CLONE,
        };
        let file = format!(
            "groups:\n- {{name: workers, max: 5, {machine}}}\n\
             - {{name: others, min: 1, max: 4, {machine}}}\n"
        );
        match self {
            Self::Supervisor => Ours::start(file, 1, false).await,
            Self::Vcenter => {
                let ours = Ours::over_vcenter(file, 1, false)?;
                ours.run(1).await?;
                tokio::time::sleep(self.starts()).await;
                Ok(ours)
            }
        }
    }

    pub(super) fn id(self, of: Of) -> &'static str {
        match (self, of) {
            (Self::Supervisor, Of::Workers) => autoscaler::GROUP,
            (Self::Supervisor, Of::Others) => "VirtualMachine/workloads/others",
            (Self::Vcenter, Of::Workers) => autoscaler_vcenter::GROUP,
            (Self::Vcenter, Of::Others) => autoscaler_vcenter::OTHER,
        }
    }

    pub(super) fn bounds(self, of: Of) -> Bounds {
        let (min, max) = match of {
            Of::Workers => (0, 5),
            Of::Others => (1, 4),
        };
        Bounds { min, max, may_have_started: self == Self::Vcenter }
    }

    /// Returns the time after which a server that has started accepts changes.
    pub(super) fn starts(self) -> Duration {
        match self {
            Self::Supervisor => Duration::ZERO,
            Self::Vcenter => Duration::from_secs(30),
        }
    }

    /// Returns the time after which the server has seen each change of a machine.
    pub(super) fn settles(self) -> Duration {
        Duration::from_secs(match self {
            Self::Supervisor => 1,
            Self::Vcenter => 45,
        })
    }

    /// Returns the provider IDs of the machines that exist in vCenter.
    pub(super) fn materialized(self, ours: &Ours) -> Ids {
        let id = |uuid: &str| format!("vsphere://{uuid}");
        match self {
            Self::Supervisor => {
                let machines = GroupResource::of("vmoperator.vmware.com", "virtualmachines");
                ours.sim().world().read(|world| {
                    let all = World::state(world).objects(ControlPlane::Supervisor).all(&machines);
                    all.filter(|it| it["status"]["uniqueID"].is_string())
                        .map(|it| id(it["spec"]["biosUUID"].as_str().unwrap()))
                        .collect()
                })
            }
            Self::Vcenter => {
                let all = autoscaler_vcenter::machines(ours.sim());
                all.into_iter().map(|(_, it)| id(&it.config.uuid.unwrap().to_string())).collect()
            }
        }
    }

    /// Returns the provider IDs of the machines that run, and the number of all machines.
    pub(super) fn machines(self, ours: &Ours) -> (Ids, usize) {
        let (running, n) = match self {
            Self::Supervisor => (autoscaler::running(ours.sim()), autoscaler::objects(ours.sim())),
            Self::Vcenter => {
                let n = autoscaler_vcenter::machines(ours.sim()).len();
                (autoscaler_vcenter::running(ours.sim()), n)
            }
        };
        (running.into_iter().collect(), n)
    }

    /// Returns the act with which no machine can be made, and an instance fails.
    pub(super) fn breaks(self) -> Act {
        match self {
            Self::Supervisor => Act::BreakConfiguration,
            Self::Vcenter => Act::ExhaustCapacity,
        }
    }

    /// Disturbs what a change does before its answer: the n-th call to a Supervisor, or each write of
    /// the journal.
    pub(super) fn disturb(
        self,
        ours: &Ours,
        failure: Failure,
        nth: u8,
    ) -> Result<Disturbance, String> {
        match self {
            Self::Supervisor => {
                let rule = ours.sim().fault(failure.rule(nth)).map_err(|err| err.to_string())?;
                Ok(Disturbance::Calls { _rule: rule })
            }
            Self::Vcenter => {
                match failure {
                    Failure::CutAfter => ours.journal().lose_answers(true),
                    _ => ours.journal().refuse(true),
                }
                Ok(Disturbance::Journal(ours.journal().clone()))
            }
        }
    }

    /// Makes each call to a Supervisor, or each write of the journal, take a while.
    pub(super) fn slow_down(self, ours: &Ours) -> Result<Disturbance, String> {
        match self {
            Self::Supervisor => {
                let rule = Rule::new("slow", [Action::Delay(SLOW)]).on(sim::Face::Supervisor);
                let rule = ours.sim().fault(rule.user_agent(Ours::AGENT));
                Ok(Disturbance::Calls { _rule: rule.map_err(|err| err.to_string())? })
            }
            Self::Vcenter => {
                ours.journal().slow_down(SLOW);
                Ok(Disturbance::Journal(ours.journal().clone()))
            }
        }
    }
}

impl Failure {
    fn rule(self, nth: u8) -> Rule {
        let action = match self {
            Self::Refused => Action::KubeStatus(KubeStatus::new(500)),
            Self::Forbidden => Action::KubeStatus(KubeStatus::new(403)),
            Self::CutBefore | Self::CutAfter => Action::Reset,
        };
        let rule = Rule::new("failure", [action])
            .on(sim::Face::Supervisor)
            .user_agent(Ours::AGENT)
            .op(["create virtualmachines", "delete virtualmachines", "get virtualmachines"])
            .nth(nth.into());
        if matches!(self, Self::CutAfter) { rule.applied() } else { rule }
    }
}
