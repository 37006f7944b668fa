//! The calls of the autoscaler in a loop without work, with the caches of its client.
//!
//! Its client (`cloudprovider/externalgrpc`) keeps the list of groups, the group of a Node and the
//! template of a group until the next `Refresh`, and the GPU label until the process ends. It keeps
//! no size, no option, and not the answer that a Node belongs to no group. The core lists instances
//! once at the start and then every two minutes. The numbers of calls are those of autoscaler 1.36.1,
//! measured by `conformance/real-clients/autoscaler.py calls`.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::session::{Answer, Session};
use super::wire::{NodeGroup, SentNode};

/// Number of times that a loop asks for the group of each Node. Only the first of them costs a call
/// for a Node of a group.
const ASKED_PER_NODE: u32 = 6;
/// Number of times that a loop without work reads the size of each group: once for the state of the
/// cluster, and twice to look for Nodes that can go.
const SIZES_PER_GROUP: u32 = 3;
/// Number of times that a loop reads the options of the group of each Node in a group.
const OPTIONS_PER_NODE: u32 = 4;

/// An autoscaler that has nothing to do.
pub struct IdleAutoscaler {
    session: Session,
    /// Nodes of the cluster.
    nodes: Vec<SentNode>,
    defaults: Options,
    has_started: bool,
    has_gpu_label: bool,
    groups: Option<Vec<NodeGroup>>,
    /// Groups of Nodes, by provider ID.
    owners: BTreeMap<String, String>,
    templates: BTreeSet<String>,
}

impl IdleAutoscaler {
    /// Creates the autoscaler of a cluster with these Nodes. `defaults` are its options.
    pub fn new(session: Session, nodes: Vec<SentNode>, defaults: Options) -> Self {
        Self {
            session,
            nodes,
            defaults,
            has_started: false,
            has_gpu_label: false,
            groups: None,
            owners: BTreeMap::new(),
            templates: BTreeSet::new(),
        }
    }

    /// Plays one loop. The first one includes what the autoscaler reads at its start.
    ///
    /// # Errors
    ///
    /// If a call fails, which ends the loop.
    pub async fn turn(&mut self) -> Answer<()> {
        let nodes = self.nodes.clone();
        if !self.has_started {
            self.list_instances().await?;
            for node in &nodes {
                self.owner(node).await?;
            }
            self.has_started = true;
        }
        if !self.has_gpu_label {
            self.session.gpu_label().await?;
            self.has_gpu_label = true;
        }
        (self.groups, self.owners, self.templates) = Default::default();
        self.session.refresh().await?;
        let groups = self.groups().await?;
        let mut with_node = BTreeSet::new();
        let mut n_owned = BTreeMap::<String, u32>::new();
        for node in &nodes {
            for asked in 0..ASKED_PER_NODE {
                if let (Some(owner), 0) = (self.owner(node).await?, asked) {
                    *n_owned.entry(owner.clone()).or_default() += 1;
                    with_node.insert(owner);
                }
            }
        }
        for group in &groups {
            if !with_node.contains(&group.id) && self.templates.insert(group.id.clone()) {
                self.session.template(&group.id).await?;
            }
        }
        for group in &groups {
            for _ in 0..SIZES_PER_GROUP {
                self.session.target(&group.id).await?;
            }
            for _ in 0..OPTIONS_PER_NODE * n_owned.get(&group.id).copied().unwrap_or_default() {
                self.session.options(&group.id, self.defaults).await?;
            }
        }
        Ok(())
    }

    /// Reads the instances of every group, as the core does at its start and every two minutes.
    ///
    /// # Errors
    ///
    /// If a call fails.
    pub async fn list_instances(&mut self) -> Answer<()> {
        for group in self.groups().await? {
            self.session.instances(&group.id).await?;
        }
        Ok(())
    }

    async fn groups(&mut self) -> Answer<Vec<NodeGroup>> {
        if let Some(groups) = &self.groups {
            return Ok(groups.clone());
        }
        let groups = self.session.groups().await?;
        Ok(self.groups.insert(groups).clone())
    }

    async fn owner(&mut self, node: &SentNode) -> Answer<Option<String>> {
        if let Some(owner) = self.owners.get(&node.provider_id) {
            return Ok(Some(owner.clone()));
        }
        let owner = self.session.group_of(node.clone()).await?.map(|it| it.id);
        if let Some(owner) = &owner {
            self.owners.insert(node.provider_id.clone(), owner.clone());
        }
        Ok(owner)
    }
}
