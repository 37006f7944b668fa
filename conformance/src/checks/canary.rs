//! Canaries: proof that a provider was at work while it was expected to hold still.
//!
//! Most safety checks demand that nothing happens, which also holds for a provider that has stopped working. So
//! the same scenario has another event, about another machine, that the provider must act on. If the provider
//! does not, the check is inconclusive.

use std::time::Duration;

use sim::ledger::Record;
use sim::world::{Command, Event};

use super::Case;
use super::build::{GRACE, T_INIT, T_LIFE, T_STATUS, VANISHING, machine, s, set_address};
use super::observe::name;
use crate::backend::Backend;
use crate::judge::facts;
use crate::lab::{Exit, Run};
use crate::verdict::Verdict;

/// An event that a working provider acts on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Canary {
    /// This machine is destroyed; its Node must go.
    Gone(u32),
    /// This machine is switched off; its Node must be marked.
    Off(u32),
    /// This machine gets another address; its Node must show it.
    Moved(u32),
}

/// Address of a moved machine; no other machine has it.
const ADDRESS: &str = "10.66.6.6";

impl Canary {
    fn command(self) -> Command {
        match self {
            Self::Gone(n) => Command::DeleteMachine(machine(n)),
            Self::Off(n) => Command::PowerOff(machine(n)),
            Self::Moved(n) => set_address(n, &[ADDRESS]),
        }
    }

    /// Time that a provider without trouble may take.
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
    /// Adds a canary at `at`: for a pass to count, the provider must act on it in time.
    pub(super) fn canary(self, canary: Canary, at: Duration) -> Self {
        self.canary_within(canary, at, s(0))
    }

    /// Adds a canary for a provider that may still pause for up to `patience` after a trouble that is over.
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

/// Inconclusive unless the provider asked for machines and initialized a node; every pass needs both. A provider that has ended
/// with an error, in a case that allows no second start, had no time for either.
pub(super) fn worked(run: &Run) -> Verdict {
    if run.scenario.provider.once && matches!(run.exits.first(), Some(Exit::Failed(_))) {
        return Verdict::Pass;
    }
    let (asked, what) = match run.backend() {
        Backend::VCenter => ("Login", "logged in to a vCenter"),
        Backend::Supervisor => ("list virtualmachines", "listed the machines of its Supervisor"),
    };
    let has_asked = run.calls().any(|call| call.op == asked && call.succeeded());
    // A provider that may not list reads machine by machine, and an informer may get the list through its watch.
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
