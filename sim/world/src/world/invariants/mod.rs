//! Invariants that hold in every world after every command and every reaction.

mod supervisor;

use crate::state::State;
use crate::vcenter::{Data, Inventory, MoRef, VCenter, can_be_child_of};

impl State {
    /// Returns every violated invariant; empty if the state is sound.
    ///
    /// Walks the whole world, so it is meant for tests and not for serving requests.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, vcenter) in &self.vcenters {
            found.extend(vcenter_violations(vcenter).into_iter().map(|it| format!("{name}: {it}")));
        }
        for (node, kubelet) in &self.kubelets {
            let machine = self
                .vcenters
                .get(&kubelet.vcenter)
                .and_then(|vcenter| vcenter.inventory.machine(kubelet.machine));
            if kubelet.running && machine.is_none() {
                found.push(format!(
                    "the kubelet of {node} runs on {}, which does not exist",
                    kubelet.machine
                ));
            }
        }
        found.extend(supervisor::violations(self));
        if let Some(((at, _), _)) = self.timers.first_key_value()
            && *at < self.latest
        {
            found.push(format!("a reaction due at {at} is still pending at {}", self.latest));
        }
        found
    }
}

fn vcenter_violations(vcenter: &VCenter) -> Vec<String> {
    let inventory = &vcenter.inventory;
    let mut found = Vec::new();
    for (id, entity) in inventory.iter() {
        if id.number > vcenter.last_number {
            found.push(format!("{id} has a number above the counter {}", vcenter.last_number));
        }
        match entity.parent {
            None if id == vcenter.root() => {}
            None => found.push(format!("{id} has no parent")),
            Some(parent) if inventory.get(parent).is_none() => {
                found.push(format!("{id} has the parent {parent}, which does not exist"));
            }
            Some(parent) if !can_be_child_of(id.kind, parent.kind) => {
                found.push(format!("{id} has the parent {parent}, which is of a wrong kind"));
            }
            Some(parent) => {
                if inventory.child(parent, &entity.name) != Some(id) {
                    found.push(format!("{id} `{}` is not indexed below {parent}", entity.name));
                }
            }
        }
        machine_violations(inventory, id, &mut found);
    }
    let rebuilt = Inventory::from(std::collections::BTreeMap::from(inventory.clone()));
    if rebuilt != *inventory {
        found.push("an index of the inventory differs from its objects".to_owned());
    }
    for (object, tags) in &vcenter.tags.on_object {
        if inventory.get(*object).is_none() {
            found.push(format!("{object} does not exist but has {} tags", tags.len()));
        }
    }
    for (token, session) in &vcenter.logins.sessions {
        if let Some(user) = &session.user
            && !vcenter.logins.users.contains_key(user)
        {
            found.push(format!("session {} has an unknown user", &token[..token.len().min(4)]));
        }
    }
    found
}

fn machine_violations(inventory: &Inventory, id: MoRef, found: &mut Vec<String>) {
    let Some(machine) = inventory.machine(id) else { return };
    let holders = [Some(machine.host), machine.pool, Some(machine.datastore)];
    for holder in holders.into_iter().flatten() {
        let lists = match inventory.get(holder).map(|it| &it.data) {
            Some(
                Data::Host { machines, .. }
                | Data::Pool { machines, .. }
                | Data::Datastore { machines, .. },
            ) => machines.contains(&id),
            _ => false,
        };
        if !lists {
            found.push(format!("{holder} does not list {id}"));
        }
    }
}
