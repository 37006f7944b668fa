//! Tests our server for the Cluster Autoscaler over Cluster API, in virtual time, with the checks of the
//! catalogue. The lab plays the controllers of Cluster API.

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::lab::autoscaler::Ours;
use conformance::lab::in_virtual_time;

/// Checks that do not hold over Cluster API, with the word of their verdict and a part of its reason. A Machine has a provider ID
/// only when its machine exists, so that an instance changes its ID, and controllers create a Machine
/// after the call that raised the size. A Machine does not say whether capacity was the reason of its
/// failure, so that the lab cannot exhaust it.
const DO_NOT_HOLD: [(&str, &str, &str); 8] = [
    ("CA-027", "skipped", "no way to exhaust-capacity"),
    ("CA-049", "FAIL", "is listed as"),
    ("CA-050", "skipped", "no way to exhaust-capacity"),
    ("CA-065", "inconclusive", "the new instance is not listed"),
    ("CA-066", "FAIL", "now it is 2, and 1 instances are listed"),
    // The check compares the sizes first.
    ("CA-068", "FAIL", "the instances were"),
    ("CA-070", "FAIL", "Increase(1): the size is 1, and 0 instances are listed"),
    ("CA-072", "inconclusive", "lists no instance"),
];

/// Plays a check in each of its generations. Returns what its verdicts should not be.
fn play(check: &AutoscalerCheck) -> Vec<String> {
    let known = DO_NOT_HOLD.iter().find(|(id, ..)| *id == check.id.as_str());
    let (wanted, reason) = known.map_or(("pass", ""), |(_, word, reason)| (*word, *reason));
    let mut wrong = Vec::new();
    for generation in check.generations {
        let verdict = in_virtual_time(async {
            let is_tls = check.need == Need::Tls;
            let ours = Ours::for_checks_of_cluster_api(1, is_tls).await.unwrap();
            check.play(&ours.subject(), *generation).await.0
        });
        if verdict.word() != wanted || !verdict.to_string().contains(reason) {
            let generation = generation.as_str();
            wrong.push(format!("{} {generation}: {verdict}, not {wanted} {reason}", check.id));
        }
    }
    wrong
}

#[test]
fn our_server_over_cluster_api_passes_every_check_that_its_machines_allow() {
    let wrong: Vec<String> = all().iter().flat_map(play).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
