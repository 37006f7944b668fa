//! Replaces our provider by a peer that uses the same Lease, and then the peer by ours: no node may
//! change.
//!
//! Both providers use the same workload, so each replacement is what an operator does: apply other
//! manifests over the existing ones.

use std::time::Duration;

use tokio::time::sleep;

use super::disturbances::{AT_WORK, nodes_by_name, unchanged};
use crate::e2e::lab::Lab;
use crate::e2e::lab::cluster::Machine;
use crate::e2e::lab::deploy::{self, Deployment};
use crate::e2e::lab::peer::Peer;
use crate::e2e::scenarios;
use crate::judge::verdict::Verdict;
use crate::scenario::Backend;

/// Status period of both providers; short, so that each makes several passes over the nodes.
const PERIOD: Duration = Duration::from_secs(10);

/// Plays the scenario with `peer`. If `peer` is `None`, builds and plays the stock CCM in vCenter
/// mode, and skips the scenario in Supervisor mode.
pub(in crate::e2e) async fn play(lab: &Lab, peer: Option<&Peer>) -> anyhow::Result<Verdict> {
    let built;
    let peer = match (peer, lab.made.backend) {
        (Some(peer), _) => peer,
        (None, Backend::VCenter) => {
            built = Peer::stock_ccm(&lab.project).await?;
            &built
        }
        (None, Backend::Supervisor) => {
            let why = "no peer for a Supervisor can be built here; name one: --peer upstream-paravirtual=PATH|IMAGE";
            return Ok(Verdict::skipped(why.to_owned()));
        }
    };
    let ready = scenarios::join(lab).await?;
    if ready != Verdict::Pass {
        return Ok(ready);
    }
    let image = peer.image(&lab.cluster).await?;
    let theirs = Deployment { image, program: Some(peer.program), ..often() };
    let ours = Deployment { image: lab.made.provider_image.clone(), ..often() };
    let joining = lab.joining().await?;
    let verdict = there_and_back(lab, &theirs, &ours, &joining).await;
    lab.dismiss(&joining).await?;
    lab.provider(false).await?;
    verdict
}

/// Returns a deployment whose flags set short periods.
fn often() -> Deployment {
    let period = PERIOD.as_secs();
    let flags = vec![
        format!("--node-status-update-frequency={period}s"),
        "--node-monitor-period=5s".to_owned(),
    ];
    Deployment { flags, ..Deployment::default() }
}

/// Lets the peer take over nodes that our provider has initialized, and initialize more nodes. Then
/// lets our provider take over all of them.
async fn there_and_back(
    lab: &Lab,
    theirs: &Deployment,
    ours: &Deployment,
    joining: &[Machine],
) -> anyhow::Result<Verdict> {
    let (early, late) = joining.split_at(1);
    lab.register(early).await?;
    let mut verdict = lab.has_joined(early).await?;
    if verdict == Verdict::Pass {
        verdict = lab.changes_nothing("the other provider", theirs).await?;
    }
    if verdict == Verdict::Pass {
        lab.register(late).await?;
        verdict = lab.has_joined(late).await?;
    }
    if verdict == Verdict::Pass {
        verdict = lab.changes_nothing("ours", ours).await?;
    }
    Ok(verdict)
}

impl Lab {
    /// Applies the workload of the provider `next` over the existing one, waits until it leads, and
    /// then two status periods more. The verdict is a failure if the provider does not lead within
    /// [`AT_WORK`], or if a Node has changed in more than its readiness and its list of taints (see
    /// [`nodes_by_name`]).
    async fn changes_nothing(&self, name: &str, next: &Deployment) -> anyhow::Result<Verdict> {
        let first = deploy::holder(&self.cluster).await?;
        let before = nodes_by_name(self).await?;
        next.deploy(&self.cluster, &self.project, &self.simulator, self.made.backend).await?;
        if !deploy::is_handed_on(&self.cluster, &first, AT_WORK).await? {
            return Ok(Verdict::fail(format!("{first} still holds the Lease after {AT_WORK:?}")));
        }
        sleep(PERIOD * 2).await;
        Ok(match unchanged(&before, &nodes_by_name(self).await?) {
            Verdict::Fail(why) => {
                Verdict::fail(format!("{name} took over, and a Node changed: {why}"))
            }
            verdict => verdict,
        })
    }
}
