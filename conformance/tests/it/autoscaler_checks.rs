//! Plays the checks of servers for the Cluster Autoscaler against the reference, in virtual time: it
//! passes all, and with a flaw it fails exactly the checks that the flaw names.

use std::collections::{BTreeMap, BTreeSet};

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::judge::verdict::Verdict;
use conformance::lab::autoscaler::{Flaw, Reference, Wire};

/// Plays a future in a runtime of its own whose clock jumps.
fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

/// Returns the number of a check, such as 42.
fn number(check: &AutoscalerCheck) -> u16 {
    check.id.as_str().trim_start_matches("CA-").parse().unwrap()
}

/// Plays all checks in all their generations, each against a new reference. Returns the verdicts
/// that are not passes.
fn against_reference(flaw: Option<Flaw>, wire: Wire) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    for check in all() {
        for generation in check.generations {
            let (verdict, _) = in_virtual_time(async {
                let wire = if check.need == Need::Tls { Wire::Tls } else { wire };
                check.play(&Reference::new(flaw, wire).subject(), *generation).await
            });
            if verdict != Verdict::Pass {
                let number = number(&check);
                verdicts.insert(format!("{number} {}", generation.as_str()), verdict);
            }
        }
    }
    verdicts
}

#[test]
fn the_reference_passes_every_check() {
    assert_eq!(against_reference(None, Wire::Plain), BTreeMap::new());
}

#[test]
fn a_reference_with_a_flaw_fails_exactly_the_checks_that_the_flaw_names() {
    let threads = std::thread::available_parallelism().unwrap().get();
    let n_per_thread = Flaw::ALL.len().div_ceil(threads);
    let mut wrong: Vec<String> = std::thread::scope(|scope| {
        let judge = |flaws: &'static [Flaw]| {
            scope.spawn(move || flaws.iter().filter_map(judge_flaw).collect())
        };
        let threads: Vec<_> = Flaw::ALL.chunks(n_per_thread).map(judge).collect();
        threads.into_iter().flat_map(|it| -> Vec<String> { it.join().unwrap() }).collect()
    });
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn judge_flaw(flaw: &Flaw) -> Option<String> {
    let verdicts = against_reference(Some(*flaw), Wire::Memory);
    let is_failure = |it: &&Verdict| matches!(it, Verdict::Fail(_));
    let number = |key: &String| key.split(' ').next().unwrap().parse::<u16>().unwrap();
    let failed: BTreeSet<u16> =
        verdicts.iter().filter(|(_, it)| is_failure(it)).map(|(key, _)| number(key)).collect();
    let wanted: BTreeSet<u16> = flaw.fails().iter().copied().collect();
    (failed != wanted).then(|| {
        let shown: Vec<String> = verdicts.iter().map(|(id, it)| format!("  {id}: {it}")).collect();
        format!("{flaw:?} fails {failed:?}, not {wanted:?}\n{}", shown.join("\n"))
    })
}

#[test]
fn every_check_of_servers_fails_for_a_flaw() {
    let failed: BTreeSet<u16> = Flaw::ALL.iter().flat_map(|it| it.fails()).copied().collect();
    let checks: BTreeSet<u16> = all().iter().map(number).collect();
    assert_eq!(failed, checks);
}
