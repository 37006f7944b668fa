//! Guard of rules that end with a scope.

use std::fmt;

use super::Addition;
use crate::control::Control;

/// Rules that [`Sim::fault`](crate::Sim::fault) has added. Dropping the guard removes those that are
/// still in force, and notes each removal in the ledger.
///
/// ```
/// # use sim::Sim;
/// # use sim::faults::{Action, Rule, RuleError};
/// # fn example(sim: &Sim) -> Result<(), RuleError> {
/// let outage = sim.fault(Rule::new("outage", [Action::Reset]))?;
/// // Every call fails here.
/// drop(outage);
/// sim.fault(Rule::new("busy", [Action::status(503)]).op(["Login"]).first(2))?.keep();
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the guard removes the rule; `keep` leaves the rule in force"]
pub struct RuleGuard {
    control: Control,
    additions: Vec<Addition>,
}

impl RuleGuard {
    pub(crate) fn new(control: Control, additions: Vec<Addition>) -> Self {
        Self { control, additions }
    }

    /// Leaves the rules in force until another removal or the end of their lifetimes.
    pub fn keep(mut self) {
        self.additions.clear();
    }
}

/// Shows only the ids, because the world holds sessions and passwords.
impl fmt::Debug for RuleGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.additions.iter().map(|it| &it.id)).finish()
    }
}

impl Drop for RuleGuard {
    fn drop(&mut self) {
        self.control.remove_additions(&self.additions);
    }
}
