//! CA-008 to CA-016: the list of groups, and the group of a Node.

use std::collections::{BTreeMap, BTreeSet};

use super::trial::{ensure, group_with_room, real, unregistered};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{NodeGroup, OfNode, OneGroup, SentNode};

/// Words that text for logs must not contain.
const SECRETS: [&str; 6] = ["password", "passwd", "secret=", "token=", "private key", "bearer "];

pub(super) async fn bounds_are_sound(trial: &Trial<'_>) -> Outcome {
    let groups = trial.session().await?.groups().await?;
    ensure!(!groups.is_empty(), "the server has no group");
    let ids: BTreeSet<&str> = groups.iter().map(|it| &*it.id).collect();
    ensure!(ids.len() == groups.len(), "two groups have the same ID");
    for NodeGroup { id, min_size, max_size, .. } in &groups {
        ensure!(!id.is_empty(), "a group has an empty ID");
        ensure!(
            0 <= *min_size && min_size <= max_size,
            "group {id} has the minimum {min_size} and the maximum {max_size}"
        );
    }
    Ok(())
}

pub(super) async fn list_is_stable(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let read = async || {
        let groups = session.groups().await?;
        let shown: Vec<_> =
            groups.into_iter().map(|it| (it.id, it.min_size, it.max_size)).collect();
        Ok::<_, Verdict>(shown)
    };
    let first = read().await?;
    session.refresh().await?;
    let second = read().await?;
    ensure!(first == second, "the groups were {first:?}, and after a Refresh {second:?}");
    Ok(())
}

pub(super) async fn text_for_logs_is_harmless(trial: &Trial<'_>) -> Outcome {
    for NodeGroup { id, debug, .. } in trial.session().await?.groups().await? {
        ensure!(!debug.contains('\n'), "the text of group {id} has several lines");
        let lower = debug.to_lowercase();
        if let Some(word) = SECRETS.iter().find(|it| lower.contains(**it)) {
            return Err(Verdict::fail(format!("the text of group {id} contains {word:?}")));
        }
    }
    Ok(())
}

pub(super) async fn knows_its_instances(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    trial.create(&session, &group.id, 1).await?;
    for group in session.groups().await? {
        for instance in session.live(&group.id).await? {
            let owner = session.group_of(unregistered(&instance)).await?;
            let owner = owner.map(|it| it.id).unwrap_or_default();
            ensure!(
                owner == group.id,
                "group {} lists {instance}, and NodeGroupForNode returns {owner:?} for it",
                group.id
            );
        }
    }
    Ok(())
}

/// Requires that the Node belongs to no group, and that this is no error.
async fn is_of_no_group(trial: &Trial<'_>, nodes: Vec<SentNode>) -> Outcome {
    let session = trial.session().await?;
    for node in nodes {
        let shown = format!("{:.60?} named {:.60?}", node.provider_id, node.name);
        match session.group_of(node).await {
            Ok(None) => {}
            Ok(Some(group)) => {
                return Err(Verdict::fail(format!("{shown} belongs to group {}", group.id)));
            }
            Err(err) => return Err(Verdict::fail(format!("{shown}: {err}"))),
        }
    }
    Ok(())
}

pub(super) async fn unknown_id_is_no_error(trial: &Trial<'_>) -> Outcome {
    let id = "vsphere://00000000-0000-4000-8000-000000000001";
    is_of_no_group(trial, vec![SentNode::new(id, "unknown"), unregistered(id)]).await
}

pub(super) async fn foreign_nodes_are_no_error(trial: &Trial<'_>) -> Outcome {
    let long = format!("x://{}", "y".repeat(4096));
    let mut nodes: Vec<SentNode> =
        ["aws:///zone/i-1", "k3s://node", "kind://podman/kind/kind-worker", "x", "", &long]
            .map(|id| SentNode::new(id, "a-node-of-others"))
            .into();
    let labels = [("a\u{0}b", "\u{1f5a5}\u{7f}"), ("", "\r\n")];
    let owned = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    nodes.push(SentNode { labels: BTreeMap::from(owned), ..SentNode::new("", "odd labels") });
    is_of_no_group(trial, nodes).await
}

pub(super) async fn template_nodes_are_no_error(trial: &Trial<'_>) -> Outcome {
    let groups = trial.session().await?.groups().await?;
    let name = |id: &str| format!("template-node-for-{id}-1-upcoming-0");
    let nodes = groups.iter().map(|it| SentNode::new("", &name(&it.id))).collect();
    is_of_no_group(trial, nodes).await
}

pub(super) async fn request_without_node_is_answered(trial: &Trial<'_>) -> Outcome {
    const INVALID_ARGUMENT: i32 = 3;
    let session = trial.session().await?;
    match session.call::<OneGroup>("NodeGroupForNode", OfNode { node: None }).await {
        Ok(answer) => {
            let id = answer.group.unwrap_or_default().id;
            ensure!(id.is_empty(), "a request without a node belongs to group {id}");
        }
        Err(err) => {
            let is_right = err.is_answer && err.code == INVALID_ARGUMENT;
            ensure!(is_right, "a request without a node was answered with {err}");
        }
    }
    session.refresh().await?;
    Ok(())
}

pub(super) async fn bounds_agree(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (room, _) = group_with_room(&session, 1).await?;
    let created = trial.create(&session, &room.id, 1).await?;
    let listed = session.groups().await?.into_iter().find(|it| it.id == room.id);
    let listed = listed.ok_or_else(|| Verdict::fail(format!("group {} is gone", room.id)))?;
    let of_node = session.group_of(real(&created[0])).await?;
    let of_node = of_node.ok_or_else(|| Verdict::fail("a new Node belongs to no group"))?;
    let bounds = |it: &NodeGroup| (it.id.clone(), it.min_size, it.max_size);
    let (listed, of_node) = (bounds(&listed), bounds(&of_node));
    ensure!(listed == of_node, "NodeGroups shows {listed:?}, NodeGroupForNode {of_node:?}");
    Ok(())
}
