//! Canaries: proof that a provider works in a scenario in which it has to leave a Node alone.
//!
//! Most safety checks demand that the provider does not act. A provider that has stopped working
//! meets this demand, too. So the scenario contains an event, usually about another machine, on
//! which the provider has to act. If the provider does not, the check is inconclusive.

use std::time::Duration;

use sim::ledger::Record;
use sim::world::{Command, Event};

use super::Case;
use super::build::{GRACE, T_INIT, T_LIFE, T_STATUS, VANISHING, machine, s, set_address};
use super::queries::name;
use crate::judge::facts;
use crate::judge::verdict::{Verdict, when};
use crate::lab::{Exit, Run};
use crate::scenario::Backend;

/// A change of a machine to which a working provider reacts with a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Canary {
    /// The scenario deletes the machine with this number. The provider has to delete the machine's
    /// Node.
    Gone(u32),
    /// The scenario powers off the machine with this number. The provider has to set the shutdown
    /// taint on the machine's Node.
    Off(u32),
    /// The scenario changes the address of the machine with this number. The provider has to write
    /// the address to the machine's Node.
    Moved(u32),
}

/// New address of the machine of [`Canary::Moved`]; no other machine has it.
const ADDRESS: &str = "10.66.6.6";

impl Canary {
    fn command(self) -> Command {
        match self {
            Self::Gone(n) => Command::DeleteMachine(machine(n)),
            Self::Off(n) => Command::PowerOff(machine(n)),
            Self::Moved(n) => set_address(n, &[ADDRESS]),
        }
    }

    /// Returns the maximum time from the change to the provider's write, if no call fails.
    fn bound(self) -> Duration {
        match self {
            Self::Gone(_) | Self::Off(_) => VANISHING + GRACE + T_LIFE,
            Self::Moved(_) => T_STATUS + T_INIT,
        }
    }

    fn judge(self, run: &Run, since: Duration, by: Duration) -> Verdict {
        let (what, at) = match self {
            Self::Gone(n) => (
                format!("deletion of the Node of deleted machine {}", name(n)),
                run.deleted(&name(n)),
            ),
            Self::Off(n) => (
                format!("shutdown taint on the Node of powered-off machine {}", name(n)),
                run.when_after(&name(n), since, |node| node.shutdown),
            ),
            Self::Moved(n) => (
                format!("new address on the Node of {}", name(n)),
                run.when_after(&name(n), since, |node| node.ips().any(|ip| ip == ADDRESS)),
            ),
        };
        match at.map(|at| at.since_start()) {
            Some(at) if (since..=by).contains(&at) => Verdict::Pass,
            other => Verdict::inconclusive(format!(
                "no proof that the provider works: the {what} came {other}; the case needs it between \
                 {since:?} and {by:?}",
                other = when(other)
            )),
        }
    }
}

impl Case {
    /// Adds a canary at `at`. A pass of the case becomes inconclusive if the provider does not
    /// react within [`Canary::bound`]. A scenario that would end before this limit lasts until one
    /// second after it.
    pub(super) fn canary(self, canary: Canary, at: Duration) -> Self {
        self.canary_within(canary, at, s(0))
    }

    /// Adds a canary as [`Self::canary`] does, but with a limit that is longer by `patience`,
    /// because the provider may still pause after earlier failures.
    pub(super) fn canary_within(
        mut self,
        canary: Canary,
        at: Duration,
        patience: Duration,
    ) -> Self {
        let by = at + canary.bound() + patience;
        let horizon = self.scenario.horizon.max(by + s(1));
        self.scenario = self.scenario.at(at, canary.command());
        self.scenario.horizon = horizon;
        let judge = self.judge;
        self.judge = Box::new(move |run| judge(run).and(|| canary.judge(run, at, by)));
        self
    }
}

/// Inconclusive unless the provider logged in to a vCenter, or read machines from a Supervisor, and
/// a Node was initialized. Every pass requires both. Passes if the first process ended with an
/// error in a case without restarts, because that process had no time for either.
pub(super) fn provider_worked(run: &Run) -> Verdict {
    if run.scenario.provider.once && matches!(run.exits.first(), Some(Exit::Failed(_))) {
        return Verdict::Pass;
    }
    let (asked, what) = match run.backend() {
        Backend::VCenter => ("Login", "logged in to a vCenter"),
        Backend::Supervisor => ("list virtualmachines", "read the machines of its Supervisor"),
    };
    let has_asked = run.calls().any(|call| call.op == asked && call.succeeded());
    // A provider without the right to list reads each machine by name. An informer may receive the
    // list through its watch.
    let has_read = || run.calls().any(|call| call.op == "get virtualmachines" && call.succeeded());
    let has_streamed = || {
        let streams = |call: &Record| {
            call.op == "watch virtualmachines" && call.req.detail.contains("sendInitialEvents=true")
        };
        run.calls().any(|call| streams(call) && !call.was_faulted())
    };
    if !has_asked && !has_read() && !has_streamed() {
        return Verdict::inconclusive(format!("the provider never {what}"));
    }
    let opened = run.log.entries().any(|(_, event)| match event {
        Event::Cluster(event) if event.key.resource.resource == "nodes" => {
            let node = facts(&event.object);
            !node.uninitialized && node.provider_id.is_some()
        }
        _ => false,
    });
    if opened {
        Verdict::Pass
    } else {
        Verdict::inconclusive("the provider never initialized a node".to_owned())
    }
}
