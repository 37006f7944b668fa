//! NODE-ADDR-006: selection of the internal and the external address by configured subnets.
//!
//! The rules are upstream's (`nodemanager.go: DiscoverNode`). For each of the two kinds, a provider
//! first drops the excluded addresses. Then it goes through the subnets of this kind in order and
//! takes the first address in the first subnet that contains one. If neither kind has a match, each
//! takes its first remaining address. If only one kind has a match, the other kind stays empty.

use crate::checks::Case;
use crate::checks::build::{T_INIT, s, set_address, world};
use crate::checks::queries::{name, names};
use crate::judge::verdict::Verdict;

const A: &str = "10.6.0.1";
const B: &str = "10.7.0.1";
const C: &str = "192.168.9.1";

/// Lines of the configuration, and the internal and external address that a node must show with
/// them; `None` if it must show no address of this kind.
struct Row {
    lines: &'static [(&'static str, &'static str)],
    internal: Option<&'static str>,
    external: Option<&'static str>,
}

const INTERNAL: &str = "internalNetworkSubnetCidr";
const EXTERNAL: &str = "externalNetworkSubnetCidr";
const NOT_INTERNAL: &str = "excludeInternalNetworkSubnetCidr";
const NOT_EXTERNAL: &str = "excludeExternalNetworkSubnetCidr";

const ROWS: [Row; 10] = [
    Row { lines: &[], internal: Some(A), external: Some(A) },
    Row { lines: &[(INTERNAL, "10.7.0.0/16")], internal: Some(B), external: None },
    Row { lines: &[(EXTERNAL, "192.168.0.0/16")], internal: None, external: Some(C) },
    Row {
        lines: &[(INTERNAL, "10.7.0.0/16"), (EXTERNAL, "192.168.0.0/16")],
        internal: Some(B),
        external: Some(C),
    },
    Row { lines: &[(INTERNAL, "172.16.0.0/12")], internal: Some(A), external: Some(A) },
    Row { lines: &[(INTERNAL, "192.168.0.0/16,10.7.0.0/16")], internal: Some(C), external: None },
    Row { lines: &[(NOT_INTERNAL, "10.6.0.0/16")], internal: Some(B), external: Some(A) },
    Row { lines: &[(NOT_EXTERNAL, "10.0.0.0/8")], internal: Some(A), external: Some(C) },
    Row {
        lines: &[(INTERNAL, "10.0.0.0/8"), (NOT_INTERNAL, "10.6.0.0/16")],
        internal: Some(B),
        external: None,
    },
    Row {
        lines: &[(NOT_INTERNAL, "10.0.0.0/8,192.168.0.0/16"), (NOT_EXTERNAL, "10.6.0.0/16")],
        internal: None,
        external: Some(B),
    },
];

pub(super) fn cases() -> Vec<Case> {
    ROWS.iter().map(case).collect()
}

fn case(row: &'static Row) -> Case {
    let lines: Vec<(String, String)> =
        row.lines.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let texts: Vec<String> = lines.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let mut scenario = world(3, s(60)).with_provider(|it| it.nodes.clone_from(&lines));
    for n in 1..=3 {
        scenario = scenario.at(s(0), set_address(n, &[A, B, C]));
    }
    let judge = move |run: &crate::lab::Run| {
        let node = run.node(&name(1));
        let of = |kind: &str| -> Vec<String> {
            node.iter().flat_map(|node| node.of_type(kind)).map(str::to_owned).collect()
        };
        let (internal, external) = (of("InternalIP"), of("ExternalIP"));
        let wanted =
            |it: Option<&str>| -> Vec<String> { it.map(str::to_owned).into_iter().collect() };
        run.initializes(&names(3), s(0), T_INIT).and(|| {
            let holds = internal == wanted(row.internal) && external == wanted(row.external);
            Verdict::pass_if(holds, || {
                format!(
                    "the node shows internal addresses {internal:?} and external addresses {external:?}; it has to show {:?} and {:?}",
                    row.internal, row.external
                )
            })
        })
    };
    let named = if texts.is_empty() { "nothing configured".to_owned() } else { texts.join(", ") };
    Case::new(scenario, judge).named(named)
}
