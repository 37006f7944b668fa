//! The world: one state, one log, one way to change it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Ids, Time, objects};

/// What somebody asks of the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Command {
    /// A request to the workload cluster's object store.
    Cluster(objects::Command),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An object of the workload cluster changed.
    Cluster(objects::Event),
}

/// Why the world refused a command.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The object store refused.
    #[error("the cluster refused: {0}")]
    Cluster(objects::Status),
}

/// What a command answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing to say.
    Done,
    /// The object store's answer.
    Object(objects::Reply),
}

/// An accepted command: what it answered and what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The answer.
    pub outcome: Outcome,
    /// What happened, in order. Empty when nothing changed.
    pub events: Vec<Event>,
}

/// The simulated truth.
#[derive(Clone, Debug)]
pub struct World {
    epoch: Timestamp,
    /// Objects of the workload cluster.
    pub cluster: objects::Store,
}

impl World {
    /// An empty world that began at `epoch`.
    pub fn new(epoch: Timestamp, seed: u64) -> Self {
        Self { epoch, cluster: objects::Store::new(Ids::new(seed)) }
    }

    /// The wall-clock reading at the moment the world began.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// Carries out `command` at `now`, or refuses it and changes nothing.
    ///
    /// # Errors
    /// The fault that the asked side answers with.
    pub fn apply(&mut self, now: Time, command: Command) -> Result<Applied, Fault> {
        match command {
            Command::Cluster(command) => {
                let decision =
                    self.cluster.decide(now.timestamp(self.epoch), command).map_err(Fault::Cluster)?;
                for event in &decision.events {
                    self.cluster.fold(event);
                }
                let events = decision.events.into_iter().map(Event::Cluster).collect();
                Ok(Applied { outcome: Outcome::Object(decision.reply), events })
            }
        }
    }
}
