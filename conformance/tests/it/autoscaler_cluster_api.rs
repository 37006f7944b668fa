//! Tests our server for the Cluster Autoscaler over Cluster API, in virtual time, with the checks of the
//! catalogue. The lab plays the controllers of Cluster API.

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::lab::autoscaler::Ours;
use conformance::lab::in_virtual_time;

/// Checks that do not hold over Cluster API, with the word of their verdict. A Machine has a provider ID
/// only when its machine exists, so that an instance changes its ID, and controllers create a Machine
/// after the call that raised the size. A Machine does not say whether capacity was the reason of its
/// failure, so that the lab cannot exhaust it.
const DO_NOT_HOLD: [(&str, &str); 8] = [
    ("CA-027", "skipped"),
    ("CA-049", "FAIL"),
    ("CA-050", "skipped"),
    ("CA-065", "inconclusive"),
    ("CA-066", "FAIL"),
    ("CA-068", "FAIL"),
    ("CA-070", "FAIL"),
    ("CA-072", "inconclusive"),
];

/// Plays a check in each of its generations. Returns what its verdicts should not be.
fn play(check: &AutoscalerCheck) -> Vec<String> {
    let known = DO_NOT_HOLD.iter().find(|(id, _)| *id == check.id.as_str());
    let wanted = known.map_or("pass", |(_, word)| word);
    let mut wrong = Vec::new();
    for generation in check.generations {
        let verdict = in_virtual_time(async {
            let is_tls = check.need == Need::Tls;
            let ours = Ours::for_checks_of_cluster_api(1, is_tls).await.unwrap();
            check.play(&ours.subject(), *generation).await.0
        });
        if verdict.word() != wanted {
            wrong.push(format!("{} {}: {verdict}, not {wanted}", check.id, generation.as_str()));
        }
    }
    wrong
}

#[test]
fn our_server_over_cluster_api_passes_every_check_that_its_machines_allow() {
    let wrong: Vec<String> = all().iter().flat_map(play).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
