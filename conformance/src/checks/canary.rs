//! What shows that a provider was at work while it was expected to hold still.
//!
//! Most safety checks ask that nothing happens, which is also what a provider does that has stopped working. So
//! something else happens in the same scenario that it must act on, to another machine. If it does not, the
//! check says nothing about it.

use std::time::Duration;

use sim::ledger::Record;
use sim::world::{Command, Event};

use super::Case;
use super::build::{GRACE, T_INIT, T_LIFE, T_STATUS, VANISHING, machine, s, set_address};
use super::observe::name;
use crate::backend::Backend;
use crate::judge::facts;
use crate::lab::Run;
use crate::verdict::Verdict;

/// What a working provider acts on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Canary {
    /// This machine is destroyed; its Node must go.
    Gone(u32),
    /// This machine is switched off; its Node must be marked.
    Off(u32),
    /// This machine gets another address; its Node must show it.
    Moved(u32),
}

/// The address that a moved machine gets; no other has it.
const ADDRESS: &str = "10.66.6.6";

impl Canary {
    fn command(self) -> Command {
        match self {
            Self::Gone(n) => Command::DeleteMachine(machine(n)),
            Self::Off(n) => Command::PowerOff(machine(n)),
            Self::Moved(n) => set_address(n, &[ADDRESS]),
        }
    }

    /// How long a provider may take that meets no trouble.
    fn bound(self) -> Duration {
        match self {
            Self::Gone(_) | Self::Off(_) => VANISHING + GRACE + T_LIFE,
            Self::Moved(_) => T_STATUS + T_INIT,
        }
    }

    fn judge(self, run: &Run, since: Duration, by: Duration) -> Verdict {
        let (what, at) = match self {
            Self::Gone(n) => {
                (format!("the node of destroyed {} went", name(n)), run.deleted(&name(n)))
            }
            Self::Off(n) => (
                format!("the node of switched-off {} was marked", name(n)),
                run.when_after(&name(n), since, |node| node.shutdown),
            ),
            Self::Moved(n) => (
                format!("the new address of {} was shown", name(n)),
                run.when_after(&name(n), since, |node| node.ips().any(|ip| ip == ADDRESS)),
            ),
        };
        match at.map(|at| at.since_start()) {
            Some(at) if (since..=by).contains(&at) => Verdict::Pass,
            other => Verdict::inconclusive(format!(
                "nothing shows that the provider was at work: {what} at {other:?}, \
                 expected between {since:?} and {by:?}"
            )),
        }
    }
}

impl Case {
    /// At `at` something happens that the provider must act on in time for a pass to count.
    pub(super) fn canary(self, canary: Canary, at: Duration) -> Self {
        self.canary_within(canary, at, s(0))
    }

    /// The same, where trouble that is over may have left the provider a pause of up to `patience`.
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

/// What every pass needs, whatever the check: machines that could be asked for, and a node that was initialized.
pub(super) fn worked(run: &Run) -> Verdict {
    let (asked, what) = match run.backend() {
        Backend::VCenter => ("Login", "logged in to a vCenter"),
        Backend::Supervisor => ("list virtualmachines", "listed the machines of its Supervisor"),
    };
    let has_asked = run.calls().any(|call| call.op == asked && call.succeeded());
    // One that may not list reads machine by machine, and an informer may have the list come with its watch.
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
