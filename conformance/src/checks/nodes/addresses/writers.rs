//! Cases in which other clients overwrite the addresses that the provider wrote to Nodes.

use super::{Case, SETTLED, T_INIT, T_STATUS, name, s, world};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::lives::{foreign_address, foreign_addresses};

/// Creates a case in which another client replaces the addresses of the first node, removes those
/// of the second, and adds one to those of the third. The provider must restore the former
/// addresses, each node's in one change, within an address period and [`T_INIT`].
pub(super) fn overwritten() -> Case {
    let since = SETTLED + s(40);
    let bound = since + T_STATUS + T_INIT;
    let scenario = world(3, bound + T_STATUS + T_INIT)
        .at(since, foreign_addresses(1, &["192.0.2.66", "192.0.2.67"]))
        .at(since, foreign_addresses(2, &[]))
        .at(since, foreign_address(3, "10.0.0.3"));
    let judge =
        move |run: &Run| (1..=3).fold(Verdict::Pass, |all, n| all.and(|| put_right(run, n)));
    Case::new(scenario, judge).named("others write addresses")
}

/// Passes if the provider restores the former addresses of the `n`-th node in one change, within an
/// address period and [`T_INIT`], and the node keeps them. Inconclusive if the scenario did not
/// change the addresses.
fn put_right(run: &Run, n: u32) -> Verdict {
    let since = SETTLED + s(40);
    let bound = since + T_STATUS + T_INIT;
    let name = name(n);
    let mut shown: Vec<_> = run
        .versions(&name)
        .into_iter()
        .filter_map(|(at, node)| Some((at, node?.addresses)))
        .collect();
    shown.dedup_by(|later, earlier| later.1 == earlier.1);
    let written = shown.iter().position(|(at, _)| at.since_start() >= since);
    let Some(written) = written.filter(|written| *written > 0) else {
        return Verdict::inconclusive(format!(
            "the scenario did not overwrite the addresses of {name}"
        ));
    };
    let wanted = &shown[written - 1].1;
    match &shown[written + 1..] {
        [(at, addresses)] if addresses == wanted => {
            Verdict::pass_if(at.since_start() <= bound, || {
                format!("{name} has its own addresses again at {at}; the limit is {bound:?}")
                    .late(*at)
            })
        }
        later => Verdict::fail(format!(
            "another client overwrote the addresses of {name} {since}; before it had {wanted:?}, afterwards its versions were {later:?}",
            since = when(since)
        )),
    }
}
