//! Tests our server for the Cluster Autoscaler over Cluster API, in virtual time, with the checks of the
//! catalogue. The lab plays the controllers of Cluster API.

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::judge::verdict::Verdict;
use conformance::lab::autoscaler::Ours;
use conformance::lab::in_virtual_time;

/// Plays a check in each of its generations, and returns the verdicts that are not passes.
fn play(check: &AutoscalerCheck) -> Vec<String> {
    let mut not_passed = Vec::new();
    for generation in check.generations {
        let (verdict, transcript) = in_virtual_time(async {
            let is_tls = check.need == Need::Tls;
            let ours = Ours::for_checks_of_cluster_api(1, is_tls).await.unwrap();
            check.play(&ours.subject(), *generation).await
        });
        if verdict != Verdict::Pass {
            let lines = transcript.last(12).join("\n  ");
            not_passed.push(format!("{} {generation:?}: {verdict}\n  {lines}", check.id));
        }
    }
    not_passed
}

#[test]
fn our_server_over_cluster_api_passes_every_check() {
    let failed: Vec<String> = all().iter().flat_map(play).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
