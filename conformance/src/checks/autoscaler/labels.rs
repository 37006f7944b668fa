//! CA-017 to CA-024: GPUs, prices, `Refresh` and `Cleanup`.

use std::time::Duration;

use tokio::time::Instant;

use super::listing::template;
use super::trial::{any_group, ensure, group_with_room, optional, sizes};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Answer, Node, SentNode, Session};

/// Resources of GPUs that the autoscaler knows.
const GPUS: [&str; 5] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "microsoft.com/directx",
];
/// Number of calls of `Refresh` in a row, and the time for one and for all.
const REFRESHES: u32 = 50;
const ONE_REFRESH: Duration = Duration::from_secs(1);
const ALL_REFRESHES: Duration = Duration::from_secs(5);

pub(super) async fn gpu_label_is_constant(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let first = session.gpu_label().await?;
    for _ in 1..10 {
        let label = session.gpu_label().await?;
        ensure!(label == first, "the label of Nodes with GPUs was {first:?} and is {label:?}");
    }
    Ok(())
}

pub(super) async fn gpu_types_are_readable(trial: &Trial<'_>) -> Outcome {
    let types = trial.session().await?.gpu_types().await?.types;
    ensure!(types.keys().all(|it| !it.is_empty()), "a type of GPUs has an empty name");
    Ok(())
}

pub(super) async fn gpu_label_marks_gpu_nodes(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let label = session.gpu_label().await?;
    if label.is_empty() {
        return Ok(());
    }
    let mut n = 0;
    for group in session.groups().await? {
        let Some(node) = template(&session, &group.id).await? else { continue };
        n += 1;
        let has_gpu =
            |it: &Node| GPUS.iter().any(|gpu| it.allocatable(gpu).is_some_and(|n| n > 0.0));
        let (has_label, has_gpu) = (node.labels().contains_key(&label), has_gpu(&node));
        ensure!(
            has_label == has_gpu,
            "the template of {} has the label {label}: {has_label}; a GPU: {has_gpu}",
            group.id
        );
    }
    if n == 0 {
        return Err(Verdict::inconclusive("no group has a template"));
    }
    Ok(())
}

/// Returns the prices of one and of two hours; `None` if the server knows no prices.
async fn prices(price: impl AsyncFn(i64) -> Answer<f64>) -> Result<Option<(f64, f64)>, Verdict> {
    let (one, two) = (optional(price(1).await)?, optional(price(2).await)?);
    Ok(one.zip(two))
}

fn are_sound((one, two): (f64, f64)) -> Outcome {
    let is_price = |it: f64| it.is_finite() && it >= 0.0;
    ensure!(is_price(one) && is_price(two), "the prices are {one} and {two}");
    let doubles = (two - 2.0 * one).abs() <= 0.01 * two.abs();
    ensure!(doubles, "an hour costs {one}, and two hours cost {two}");
    Ok(())
}

/// Returns a Node as the autoscaler sends it for the price of a group: its template.
async fn template_node(session: &Session) -> Result<SentNode, Verdict> {
    let group = any_group(session).await?.id;
    let labels = template(session, &group).await?.map(|it| it.labels()).unwrap_or_default();
    Ok(SentNode { labels, ..SentNode::new("", &format!("template-node-for-{group}-1")) })
}

async fn node_prices(session: &Session) -> Result<Option<(f64, f64)>, Verdict> {
    let node = template_node(session).await?;
    prices(async |hours| session.node_price(node.clone(), hours).await).await
}

/// Serialized `v1.Pod` with one container that requests a CPU and 1 GiB of memory: the fields
/// spec (2), containers (2), resources (8) and requests (2).
fn pod() -> Vec<u8> {
    let field = |tag: u8, content: &[u8]| {
        let mut bytes = vec![tag << 3 | 2, u8::try_from(content.len()).unwrap_or(u8::MAX)];
        bytes.extend_from_slice(content);
        bytes
    };
    let request = |name: &str, amount: &str| {
        let quantity = field(1, amount.as_bytes());
        field(2, &[field(1, name.as_bytes()), field(2, &quantity)].concat())
    };
    let requests = [request("cpu", "1"), request("memory", "1Gi")].concat();
    let container = [field(1, b"main"), field(8, &requests)].concat();
    field(2, &field(2, &container))
}

pub(super) async fn node_price_is_proportional(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    node_prices(&session).await?.map_or(Ok(()), are_sound)
}

pub(super) async fn pod_price_is_proportional(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let pod = pod();
    let of_pod = prices(async |hours| session.pod_price(&pod, hours).await).await?;
    let of_node = match node_prices(&session).await {
        Ok(prices) => prices,
        // CA-020 judges the prices of Nodes.
        Err(_) => return of_pod.map_or(Ok(()), are_sound),
    };
    ensure!(
        of_pod.is_some() == of_node.is_some(),
        "prices of Nodes are implemented: {}; of Pods: {}",
        of_node.is_some(),
        of_pod.is_some()
    );
    of_pod.map_or(Ok(()), are_sound)
}

pub(super) async fn refresh_is_cheap(trial: &Trial<'_>) -> Outcome {
    let session = trial.cold().await?;
    let begin = Instant::now();
    session.refresh().await?;
    let one = begin.elapsed();
    ensure!(one <= ONE_REFRESH, "Refresh took {} ms", one.as_millis());
    let begin = Instant::now();
    for _ in 0..REFRESHES {
        session.refresh().await?;
    }
    let all = begin.elapsed();
    ensure!(all <= ALL_REFRESHES, "{REFRESHES} calls of Refresh took {} ms", all.as_millis());
    Ok(())
}

/// Requires that a call changes neither sizes nor instances, in a server with an instance.
async fn changes_nothing(trial: &Trial<'_>, call: impl AsyncFn(&Session) -> Answer<()>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 2).await?;
    trial.create(&session, &group.id, 2).await?;
    let before = sizes(&session).await?;
    for _ in 0..2 {
        call(&session).await?;
        let after = sizes(&session).await?;
        ensure!(before == after, "the groups were {before:?} and are {after:?}");
    }
    Ok(())
}

pub(super) async fn refresh_changes_nothing(trial: &Trial<'_>) -> Outcome {
    changes_nothing(trial, Session::refresh).await
}

pub(super) async fn cleanup_changes_nothing(trial: &Trial<'_>) -> Outcome {
    changes_nothing(trial, Session::cleanup).await?;
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, 1).await?;
    session.increase(&group.id, 1).await?;
    let now = session.target(&group.id).await?;
    ensure!(now == size + 1, "after Cleanup an increase of {} has no effect", group.id);
    Ok(())
}
