//! Tests of the store through its interface: commands, and the events and answers that they cause.

mod definitions;
mod histories;
mod rules;
mod semantics;
mod sizes;
mod strategic;
mod typed;
mod validation;
mod values;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Command, Decision, Effect, GroupResource, Key, Status, Store};
use crate::Ids;

fn now() -> Timestamp {
    "2026-03-01T08:00:00Z".parse().unwrap()
}

fn store() -> Store {
    Store::new(Ids::new(7))
}

impl Store {
    /// Decides a command and folds the events.
    fn run(&mut self, command: Command) -> Result<Decision, Status> {
        let decision = self.decide(now(), command)?;
        for event in &decision.events {
            self.fold(event);
        }
        Ok(decision)
    }

    /// Like [`run`](Self::run), but panics if the store refuses the command; returns the effect.
    fn done(&mut self, command: Command) -> Effect {
        self.run(command).unwrap().reply.effect
    }

    fn node(&self, name: &str) -> Value {
        self.get(&Key::node(name)).unwrap().as_ref().clone()
    }
}

fn nodes() -> GroupResource {
    GroupResource::core("nodes")
}

fn create_node(name: &str) -> Command {
    Command::create(nodes(), "", json!({"metadata": {"name": name}}))
}
