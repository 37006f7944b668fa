//! CA-025 to CA-035 and CA-072: sizes, instances and templates.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;

use super::trial::{UNIMPLEMENTED, ensure, group_with_room, new_failure, optional};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{
    Act, Generation, Instance, Instances, Node, Quantity, Session, Template,
};

/// A group that no server has.
pub(super) const NOWHERE: &str = "no-such-group/of-any/server";
/// Largest message that the autoscaler receives.
const LARGEST_MESSAGE: usize = 4 << 20;
/// Number of instances of a large group, if its maximum allows that many.
const LARGE: i32 = 10_000;

pub(super) async fn size_of_groups(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    for group in session.groups().await? {
        let size = session.target(&group.id).await?;
        ensure!(size >= 0, "group {} has the size {size}", group.id);
    }
    for id in [NOWHERE, ""] {
        let is_error = session.target(id).await.is_err();
        ensure!(is_error, "NodeGroupTargetSize of the group {id:?} succeeded");
    }
    Ok(())
}

pub(super) async fn ids_are_unique(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 2).await?;
    trial.create(&session, &group.id, 2).await?;
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for group in session.groups().await? {
        for Instance { id, .. } in session.instances(&group.id).await? {
            ensure!(!id.is_empty(), "an instance of {} has an empty ID", group.id);
            if let Some(other) = owners.insert(id.clone(), group.id.clone()) {
                let owner = &group.id;
                return Err(Verdict::fail(format!("{id} is listed in {other} and in {owner}")));
            }
        }
    }
    let is_error = session.instances(NOWHERE).await.is_err();
    ensure!(is_error, "NodeGroupNodes of an unknown group succeeded");
    Ok(())
}

pub(super) async fn states_and_errors_are_known(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    let failed = new_failure(trial, &session, &group.id, Act::ExhaustCapacity).await?;
    is_known(&failed)?;
    session.instances(&group.id).await?.iter().try_for_each(is_known)
}

fn is_known(instance: &Instance) -> Outcome {
    let (id, state) = (&instance.id, instance.state());
    ensure!((0..=3).contains(&state), "{id} has the state {state}");
    let Some(error) = instance.error() else { return Ok(()) };
    ensure!(state != 0, "{id} has an error and no state, so that the autoscaler ignores it");
    let class = error.class;
    ensure!(class == 1 || class == 99, "the error of {id} has the class {class}");
    Ok(())
}

pub(super) async fn instances_have_a_state(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    let before = session.live(&group.id).await?;
    session.increase(&group.id, 1).await?;
    let mut is_seen = false;
    for _ in 0..30 {
        for instance in session.instances(&group.id).await? {
            ensure!(instance.state() != 0, "{} has no state", instance.id);
            is_seen |= !before.contains(&instance.id);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let why = || Verdict::inconclusive("the new instance was not listed within 30 s");
    is_seen.then_some(()).ok_or_else(why)
}

/// Returns the answer about the template of a group; `None` if it is not implemented.
async fn answer(session: &Session, group: &str) -> Result<Option<Template>, Verdict> {
    optional(session.template(group).await)
}

/// Returns the template of a group as a Node, from the field that the generation reads; `None` if
/// the server has none, or if CA-029 to CA-031 judge that it cannot be read.
pub(super) async fn template(session: &Session, group: &str) -> Result<Option<Node>, Verdict> {
    let answer = answer(session, group).await?.unwrap_or_default();
    let bytes = if session.generation() == Generation::G1 { answer.old } else { answer.new };
    Ok(Node::decode(&*bytes).ok().filter(|_| !bytes.is_empty()))
}

/// Judges the template of each group; a server without any is inconclusive.
async fn each_template(trial: &Trial<'_>, judge: impl Fn(&str, Template) -> Outcome) -> Outcome {
    let session = trial.session().await?;
    let mut n = 0;
    for group in session.groups().await? {
        if let Some(template) = answer(&session, &group.id).await? {
            n += 1;
            judge(&group.id, template)?;
        }
    }
    if n == 0 {
        return Err(Verdict::inconclusive("no group has a template"));
    }
    Ok(())
}

/// Like [`each_template`], for templates that can be read.
async fn each_node(trial: &Trial<'_>, judge: impl Fn(&str, Node) -> Outcome) -> Outcome {
    let is_first = trial.generation == Generation::G1;
    each_template(trial, |group, template| {
        let bytes = if is_first { template.old } else { template.new };
        if bytes.is_empty() {
            return Err(Verdict::inconclusive(format!("the template of {group} is empty")));
        }
        let node = Node::decode(&*bytes);
        judge(group, node.map_err(|err| Verdict::fail(format!("the template of {group}: {err}")))?)
    })
    .await
}

pub(super) async fn template_is_never_empty(trial: &Trial<'_>) -> Outcome {
    each_template(trial, |group, Template { old, new }| {
        let is_empty = old.is_empty() && new.is_empty();
        ensure!(!is_empty, "the template of {group} has no Node, which crashes the autoscaler");
        Ok(())
    })
    .await
}

pub(super) async fn template_has_both_fields(trial: &Trial<'_>) -> Outcome {
    each_template(trial, |group, Template { old, new }| {
        if old.is_empty() && new.is_empty() {
            return Err(Verdict::inconclusive(format!("the template of {group} is empty")));
        }
        let (n_old, n_new) = (old.len(), new.len());
        ensure!(
            old == new,
            "the template of {group} has {n_old} bytes in field 1 and {n_new} in field 2; they must be equal"
        );
        Ok(())
    })
    .await
}

pub(super) async fn template_has_resources(trial: &Trial<'_>) -> Outcome {
    each_node(trial, |group, node| {
        let status = node.status.unwrap_or_default();
        for (of, all) in [("capacity", &status.capacity), ("allocatable", &status.allocatable)] {
            for (name, Quantity { text }) in all {
                let is_quantity = all[name].amount().is_some();
                ensure!(is_quantity, "{of} of {name} in the template of {group} is {text:?}");
            }
            for name in ["cpu", "memory", "pods"] {
                let amount = all.get(name).and_then(Quantity::amount);
                ensure!(
                    amount.is_some_and(|it| it > 0.0),
                    "the template of {group} has no {name} in its {of}"
                );
            }
        }
        for (name, amount) in &status.allocatable {
            let (less, all) =
                (amount.amount(), status.capacity.get(name).and_then(Quantity::amount));
            let exceeds = less > all;
            ensure!(!exceeds, "the template of {group} has more allocatable {name} than capacity");
        }
        Ok(())
    })
    .await
}

pub(super) async fn template_has_platform(trial: &Trial<'_>) -> Outcome {
    each_node(trial, |group, node| {
        let labels = node.labels();
        for key in ["kubernetes.io/arch", "kubernetes.io/os"] {
            let value = labels.get(key).map(String::as_str).unwrap_or_default();
            ensure!(!value.is_empty(), "the template of {group} has no label {key}");
        }
        Ok(())
    })
    .await
}

pub(super) async fn template_is_like_a_ready_node(trial: &Trial<'_>) -> Outcome {
    each_node(trial, |group, node| {
        let id = node.spec.unwrap_or_default().provider_id;
        ensure!(id.is_empty(), "the template of {group} has the provider ID {id}");
        let conditions = node.status.unwrap_or_default().conditions;
        let is_ready = conditions.iter().any(|it| it.kind == "Ready" && it.status == "True");
        ensure!(is_ready, "the template of {group} is not Ready");
        Ok(())
    })
    .await?;
    let session = trial.session().await?;
    for group in session.groups().await? {
        let first = template(&session, &group.id).await?;
        let second = template(&session, &group.id).await?;
        ensure!(first == second, "the template of {} changes from call to call", group.id);
    }
    Ok(())
}

pub(super) async fn groups_at_zero_have_a_template(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let groups = session.groups().await?;
    if groups.iter().all(|it| it.min_size > 0) {
        return Err(Verdict::skipped("every group has a minimum above zero"));
    }
    for group in groups.into_iter().filter(|it| it.min_size <= 0) {
        let has_template = answer(&session, &group.id).await?.is_some();
        ensure!(has_template, "group {} may have no instance, and has no template", group.id);
    }
    Ok(())
}

pub(super) async fn template_of_unknown_group_fails(trial: &Trial<'_>) -> Outcome {
    match trial.session().await?.template(NOWHERE).await {
        Ok(_) => Err(Verdict::fail("an unknown group has a template")),
        Err(err) if err.code == UNIMPLEMENTED => Err(Verdict::fail(
            "the template of an unknown group is Unimplemented, which means a group without template",
        )),
        Err(_) => Ok(()),
    }
}

pub(super) async fn fits_the_largest_message(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    session.increase(&group.id, 1).await?;
    let instances = session.instances(&group.id).await?;
    if instances.is_empty() {
        return Err(Verdict::inconclusive(format!("group {} lists no instance", group.id)));
    }
    let n = instances.len();
    let per_instance = Instances { instances }.encoded_len() / n;
    for group in session.groups().await? {
        let most = usize::try_from(group.max_size.min(LARGE)).unwrap_or_default();
        let bytes = most * per_instance;
        ensure!(
            bytes <= LARGEST_MESSAGE,
            "{most} instances of {} take {bytes} bytes in one answer; the autoscaler reads 4 MiB",
            group.id
        );
    }
    Ok(())
}
