//! Carries out the acts of a scenario in the lab.

mod initialize;
mod redirect;

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use sim::world::objects::{self, Key, PatchKind};
use sim::world::{Command, World};

use super::{ByHand, EndpointAnswer, Lab, LabEvent, Mode, Running, Scrape, WAKING, provider};
use crate::scenario::{Act, Caller, Initializer};

impl Lab {
    /// Carries out an act now.
    ///
    /// If the world refuses the act, the lab notes this in the ledger and goes on, because a shrunk
    /// timeline may contain such acts.
    pub async fn act(&mut self, act: &Act) {
        let from = self.world().now();
        self.carry_out(act).await;
        if act.changes_nodes() {
            let to = self.world().now();
            self.by_hand.push(ByHand { from, to, act: act.clone() });
        }
    }

    async fn carry_out(&mut self, act: &Act) {
        match act {
            Act::World(command) => self.change_world(command),
            Act::Fault(rule) => match self.sim.fault(rule.clone()) {
                Ok(guard) => guard.keep(),
                Err(error) => self.refuse(error),
            },
            Act::RemoveRules => self.sim.heal(),
            Act::Phase(phase) => self.sim.ledger().set_phase(Some(phase)),
            Act::Start(replica) => self.start(*replica).await,
            Act::Stop(replica) => self.stop(*replica).await,
            Act::Crash(replica) => self.crash(*replica).await,
            Act::StopLeader => {
                if let Some(leader) = self.noted_leader() {
                    self.stop(leader).await;
                }
            }
            Act::CrashLeader => {
                if let Some(leader) = self.noted_leader() {
                    self.crash(leader).await;
                }
            }
            Act::SuspendLeader => {
                if let Some(leader) = self.noted_leader() {
                    self.suspend(leader).await;
                }
            }
            Act::ResumeAll => self.resume_all().await,
            Act::StepClocks(seconds) => {
                self.note(LabEvent::ClocksStep(*seconds));
                self.each(|it| it.step_clock(SignedDuration::from_secs(*seconds)));
            }
            Act::Scrape => {
                self.each(|it| it.is_readable());
                let scrapes: Vec<_> =
                    self.replicas.iter().filter_map(|it| self.scrape(it)).collect();
                self.scrapes.extend(scrapes);
            }
            Act::GetEndpoint { path, by } => self.ask_endpoints(path, *by).await,
            Act::RenewCertificate => self.certificates.push(self.files.renew()),
            Act::SpoilCertificate => self.files.spoil(),
            Act::StartAll => {
                for replica in 0..self.scenario.provider.replicas.max(1) {
                    self.start(replica).await;
                }
            }
            Act::Token { grace } => self.rotate_token(*grace),
            Act::Initialize { node, by } => self.initialize(node, *by),
            Act::CopyAnnotation { key, from, to } => self.copy_annotation(key, from, to),
            Act::Vcenters(names) => self.scenario.provider.vcenters.clone_from(names),
            Act::Datacenters(names) => self.scenario.provider.datacenters.clone_from(names),
            Act::Secret { name, password } => self.change_secret(name, password),
        }
    }

    /// Applies a command to the world. In Supervisor mode a power change, a creation or a deletion
    /// of a machine goes through its VirtualMachine object. Notes a refusal in the ledger.
    fn change_world(&self, command: &Command) {
        let command = match self.stage.mode {
            Mode::VCenter(_) => command.clone(),
            Mode::Supervisor(_) => self
                .world()
                .read(|world| redirect::through_the_object(command, World::state(world))),
        };
        if let Err(fault) = self.sim.apply(command) {
            self.refuse(fault);
        }
    }

    fn rotate_token(&self, grace: Duration) {
        let rotated = self.sim.supervisor().map(|it| it.rotate_token(grace));
        match rotated {
            Some(Ok(token)) => self.token.set(token),
            Some(Err(error)) => self.refuse(error),
            None => self.refuse("the simulated world has no Supervisor"),
        }
    }

    /// Initializes a node, or every uninitialized one, in the place of another initializer.
    fn initialize(&self, node: &Option<String>, by: Initializer) {
        let commands =
            self.world().read(|world| initialize::by_others(World::state(world), node, by));
        if commands.is_empty() {
            self.refuse("no uninitialized node has a machine with UUID and address");
        }
        for command in commands {
            if let Err(fault) = self.world().apply(command) {
                self.refuse(fault);
            }
        }
    }

    fn copy_annotation(&self, key: &str, from: &str, to: &str) {
        let from = Key::node(from);
        let noted = self.world().read(|world| {
            let node = World::state(world).cluster.get(&from);
            node.and_then(|node| node["metadata"]["annotations"].get(key).cloned())
        });
        if let Some(noted) = noted {
            let patch = json!({"metadata": {"annotations": {key: noted}}});
            let patch = objects::Command::patch(Key::node(to), PatchKind::Merge, patch);
            if let Err(fault) = self.world().apply(Command::Cluster(patch)) {
                self.refuse(fault);
            }
        }
    }

    fn change_secret(&self, name: &str, password: &str) {
        let secret = self.secret(name, Some(password));
        if let Err(fault) = self.world().apply(secret) {
            self.refuse(fault);
        } else {
            self.note(LabEvent::SecretChanged(name.to_owned()));
        }
    }

    /// Sends a GET request to the HTTPS endpoint of every running replica and keeps the answers.
    async fn ask_endpoints(&mut self, path: &str, by: Caller) {
        let at = self.world().now();
        let mut answers = Vec::new();
        for running in &self.replicas {
            match running.get(path, by).await {
                Ok((outcome, certificate)) => {
                    let (replica, path) = (running.index(), path.to_owned());
                    answers.push(EndpointAnswer { at, replica, path, by, outcome, certificate });
                }
                Err(refused) => self.refuse(refused),
            }
        }
        self.answers.extend(answers);
    }

    /// Returns the index of the leader and notes it in the ledger; `None` if no running replica
    /// leads.
    ///
    /// If no running replica leads and the replicas are processes, notes that the act failed,
    /// because the rest of the scenario depends on the act. In virtual time notes nothing then,
    /// because shrunk histories may contain such acts.
    pub(super) fn noted_leader(&self) -> Option<usize> {
        let leader = self.leader();
        match leader {
            Some(leader) => self.note(LabEvent::Leads(leader)),
            None if self.host.is_some() => {
                self.refuse("no running replica of the provider holds the lease")
            }
            None => {}
        }
        leader
    }

    async fn suspend(&self, index: usize) {
        for replica in self.replicas.iter().filter(|it| it.index() == index) {
            match replica.suspend().await {
                Ok(()) => self.note(LabEvent::Suspended(index)),
                Err(why) => self.refuse(why),
            }
        }
    }

    pub(super) async fn resume_all(&self) {
        self.note(LabEvent::Resumed);
        for replica in &self.replicas {
            replica.resume().await;
        }
        self.wait_without_restarts(WAKING).await;
        self.replicas.iter().for_each(Running::renew);
    }

    /// Applies `act` to every running replica, and notes each refusal in the ledger.
    fn each(&self, act: impl Fn(&Running) -> Result<(), String>) {
        for refused in self.replicas.iter().filter_map(|replica| act(replica).err()) {
            self.refuse(refused);
        }
    }

    pub(super) fn secret(&self, name: &str, password: Option<&str>) -> sim::world::Command {
        provider::secret(&self.sim, name, password, |vcenter| match &self.host {
            None => vcenter.to_owned(),
            Some(host) => host.server(vcenter),
        })
    }

    /// Returns the current metrics and health of a replica, or `None` for a process.
    pub(super) fn scrape(&self, replica: &Running) -> Option<Scrape> {
        replica.scrape(self.world().now(), self.sim.ledger().next_seq())
    }
}
