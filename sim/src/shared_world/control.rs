//! Operations of tests and of the admin port on a running sim: commands and fault rules.
//!
//! The ledger notes each change by these operations, and counts none of them as a call.

use std::fmt;

use sim_world::vcenter::{Password, VcFault};
use sim_world::{Applied, Command, Fault};

use crate::WorldHandle;
use crate::faults::{Action, Addition, Faults, Rule, RuleError, RuleId};
use crate::ledger::{Kind, Ledger};

/// Handles of the world, ledger and rules of one sim. Clones refer to the same sim.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    pub(crate) world: WorldHandle,
    pub(crate) ledger: Ledger,
    pub(crate) faults: Faults,
}

impl Control {
    /// Applies a command, and notes it in the ledger if the world accepts it.
    ///
    /// # Errors
    /// The fault with which the world refuses the command.
    pub(crate) fn apply(&self, command: Command) -> Result<Applied, Fault> {
        let text = describe(&command);
        let applied = self.world.apply(command)?;
        self.ledger.note(self.world.now(), Kind::World, text);
        Ok(applied)
    }

    /// Applies all commands at one moment and in order, or none. Notes applied commands in the
    /// ledger.
    ///
    /// # Errors
    /// The index of the first command that the world refuses, and the fault. No command has an
    /// effect then.
    #[cfg(feature = "listen")]
    pub(crate) fn apply_all(&self, commands: Vec<Command>) -> Result<Vec<Applied>, (usize, Fault)> {
        let texts: Vec<String> = commands.iter().map(describe).collect();
        let applied = self.world.lock().apply_all(commands)?;
        for text in texts {
            self.ledger.note(self.world.now(), Kind::World, text);
        }
        Ok(applied)
    }

    /// Current password of an account; `None` if the vCenter or the account does not exist.
    pub(crate) fn password(&self, vcenter: &str, user: &str) -> Option<Password> {
        self.world
            .read(|world| Some(world.vcenter(vcenter)?.logins.users.get(user)?.password.clone()))
    }

    /// Adds fault rules, all of them or none, and notes each addition in the ledger. Dropping the
    /// returned guard removes the rules.
    ///
    /// # Errors
    /// [`RuleError`] about the first rule that is invalid, or that has the id of another rule. The
    /// ledger then has no note.
    pub(crate) fn fault_all(&self, rules: Vec<Rule>) -> Result<RuleGuard, RuleError> {
        let look_back = rules.iter().any(has_read_stale);
        let additions = self.faults.add_all(self.world.now(), rules)?;
        if look_back {
            self.world.keep_events();
        }
        for Addition { id, .. } in &additions {
            self.ledger.note(self.world.now(), Kind::Fault, format!("rule {id} added"));
        }
        Ok(RuleGuard { control: self.clone(), additions })
    }

    /// Removes a fault rule, and notes the removal in the ledger. Returns `false` if no rule has
    /// this id.
    #[cfg(feature = "listen")]
    pub(crate) fn remove(&self, id: &RuleId) -> bool {
        let removed = self.faults.remove(id);
        if removed {
            self.drop_unneeded_events();
            self.note_removal(id);
        }
        removed
    }

    /// Removes the rules of these additions that are still in force, and notes each removal in the
    /// ledger.
    pub(crate) fn remove_additions(&self, additions: &[Addition]) {
        let removed = self.faults.remove_additions(additions);
        if !removed.is_empty() {
            self.drop_unneeded_events();
        }
        removed.iter().for_each(|id| self.note_removal(id));
    }

    fn note_removal(&self, id: &RuleId) {
        self.ledger.note(self.world.now(), Kind::Fault, format!("rule {id} removed"));
    }

    /// Drops the past events of the world if no remaining rule needs them.
    fn drop_unneeded_events(&self) {
        if !self.faults.list().iter().any(|it| has_read_stale(&it.rule)) {
            self.world.drop_events();
        }
    }

    /// Removes every fault rule, and notes the removal in the ledger.
    pub(crate) fn heal(&self) {
        self.faults.clear();
        self.drop_unneeded_events();
        self.ledger.note(self.world.now(), Kind::Fault, "all rules removed");
    }
}

/// Rules that [`Sim::fault`](crate::Sim::fault) has added. Dropping the guard removes those that
/// are still in force, and notes each removal in the ledger. The removal may lock the world, so do
/// not drop the guard inside [`WorldHandle::read`].
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
    /// Leaves the rules in force until another removal or the end of their lifetimes.
    pub fn keep(mut self) {
        self.additions.clear();
    }
}

/// Shows only the ids, because the world holds sessions and passwords.
impl fmt::Debug for RuleGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.additions.iter().map(|it| it.id.as_str())).finish()
    }
}

impl Drop for RuleGuard {
    fn drop(&mut self) {
        if !self.additions.is_empty() {
            self.control.remove_additions(&self.additions);
        }
    }
}

/// True if the rule answers from an earlier state of the world (`read.stale`).
fn has_read_stale(rule: &Rule) -> bool {
    rule.actions.iter().any(|it| matches!(it, Action::ReadStale(_)))
}

/// Returns the text of a command for the ledger: its JSON, with `…` for a password. For a client's
/// request the text names only the vCenter.
fn describe(command: &Command) -> String {
    let command = match command {
        Command::RotatePassword { vcenter, user, .. } => Command::RotatePassword {
            vcenter: vcenter.clone(),
            user: user.clone(),
            password: Password::new("…"),
        },
        // The ledger has the request already, from the face that received it.
        Command::Request { vcenter, .. } => return format!("a request to {vcenter}"),
        other => other.clone(),
    };
    serde_json::to_string(&command).unwrap_or_else(|_| VcFault::InvalidState.to_string())
}
