//! Tests single failures of lists and watches, with both strategies of a watcher.

use sim::Sim;
use sim::faults::{Rule, RuleId};
use sim::world::Command;
use sim::world::objects::{self, GroupResource, Key, PatchKind};

use super::cache::{Cache, QUIET, Strategy, play};

/// Number of Nodes; more than two pages.
const N_NODES: u32 = 7;

/// A failure: its rules, a piece of the error that the client must return (empty for none), and the
/// strategies to which it applies.
struct Trouble {
    name: &'static str,
    rules: &'static str,
    met: &'static str,
    of: &'static [Strategy],
}

const BOTH: &[Strategy] = &Strategy::ALL;
const LISTS: &[Strategy] = &[Strategy::ListWatch];

const TROUBLES: [Trouble; 16] = [
    Trouble {
        name: "the log is compacted between two watches",
        rules: "
- {id: short, match: {op: watch nodes}, when: {after: 1, max: 6}, do: [{watch.closeAfter: 1}]}
- {id: compact, match: {op: watch nodes}, when: {after: 1, max: 6}, do: [{cluster.compact: 0}]}",
        met: "too old resource version",
        of: BOTH,
    },
    Trouble {
        name: "a watch answers 410 at once",
        rules: "[{id: gone, match: {op: watch nodes}, when: {first: 3}, do: [watch.gone410]}]",
        met: "too old resource version",
        of: BOTH,
    },
    Trouble {
        name: "410 in the middle of a stream",
        rules: "[{id: gone, match: {op: watch nodes}, when: {max: 5}, do: [{watch.gone410After: 2}]}]",
        met: "too old resource version",
        of: BOTH,
    },
    Trouble {
        name: "the connection breaks in the middle of a line",
        rules: "[{id: cut, match: {op: watch nodes}, when: {max: 8}, do: [{truncate: {bytes: 700}}]}]",
        met: "cut short by a rule",
        of: BOTH,
    },
    Trouble {
        name: "a watch ends early, in order",
        rules: "[{id: short, match: {op: watch nodes}, when: {max: 8}, do: [{watch.closeAfter: 2}]}]",
        met: "",
        of: BOTH,
    },
    Trouble {
        name: "a watch is silent until the server ends it",
        rules: "[{id: silent, match: {op: watch nodes}, when: {first: 4}, do: [watch.silent]}]",
        met: "",
        of: BOTH,
    },
    Trouble {
        name: "a watch falls silent and nobody ends it",
        rules: "[{id: held, match: {op: watch nodes}, when: {max: 4}, do: [{watch.holdAfter: 1}]}]",
        met: "",
        of: BOTH,
    },
    Trouble {
        name: "a watch sends nothing and nobody ends it",
        rules: "[{id: held, match: {op: watch nodes}, when: {max: 4}, do: [{watch.holdAfter: 0}]}]",
        met: "",
        of: BOTH,
    },
    Trouble {
        name: "bookmarks are lost",
        rules: "
- {id: mute, match: {op: watch nodes}, when: {max: 3}, do: [watch.noBookmark]}
- {id: compact, match: {op: watch nodes}, do: [{cluster.compact: 0}]}",
        met: "",
        of: BOTH,
    },
    Trouble {
        name: "429 with Retry-After for any request",
        rules: "[{id: busy, match: {op: '* nodes'}, when: {first: 3}, do: [{status: {code: 429, retryAfter: 7}}]}]",
        met: "Too many requests",
        of: BOTH,
    },
    Trouble {
        name: "500 at a list",
        rules: "[{id: broken, match: {op: list nodes}, when: {first: 3}, do: [{status: {code: 500}}]}]",
        met: "Internal error occurred",
        of: LISTS,
    },
    Trouble {
        name: "500 at the second page",
        rules: "[{id: broken, match: {op: list nodes}, when: {nth: 2}, do: [{status: {code: 500}}]}]",
        met: "Internal error occurred",
        of: LISTS,
    },
    Trouble {
        name: "503 at watches",
        rules: "[{id: away, match: {op: watch nodes}, when: {max: 4}, do: [{status: {code: 503}}]}]",
        met: "unable to handle the request",
        of: BOTH,
    },
    Trouble {
        name: "a list is cut short",
        rules: "[{id: cut, match: {op: list nodes}, when: {first: 2}, do: [{truncate: {bytes: 500}}]}]",
        met: "cut short by a rule",
        of: LISTS,
    },
    Trouble {
        name: "the connection breaks before an answer",
        rules: "[{id: reset, match: {op: '* nodes'}, when: {nth: [1, 3, 5]}, do: [reset]}]",
        met: "connection reset",
        of: BOTH,
    },
    Trouble {
        name: "everything is slow",
        rules: "[{id: slow, match: {op: '* nodes'}, do: [{delay: 40s}]}]",
        met: "",
        of: BOTH,
    },
];

#[test]
fn a_cache_is_complete_after_each_failure_of_a_list_or_watch() {
    for trouble in &TROUBLES {
        for strategy in trouble.of {
            play(async |sim| survive(sim, trouble, *strategy).await);
        }
    }
}

async fn survive(sim: &Sim, trouble: &Trouble, strategy: Strategy) {
    let Trouble { name, rules, met, .. } = trouble;
    (0..N_NODES).for_each(|n| create(sim, n));
    let rules: Vec<Rule> = serde_saphyr::from_str(rules).unwrap();
    let ids: Vec<RuleId> = rules.iter().map(|rule| rule.id.clone()).collect();
    sim.fault_all(rules).unwrap().keep();
    let mut cache = Cache::new(sim, strategy);
    for round in 0..4 {
        cache.settle().await;
        label(sim, 0, &round.to_string());
        delete(sim, round + 1);
        create(sim, N_NODES + round);
        label(sim, N_NODES + round, "y");
    }
    cache.settle().await;
    cache.assert_complete();
    assert_fired(sim, &ids, &format!("{name}, {strategy:?}"));
    let has_met = |error: &String| error.contains(met);
    assert!(
        met.is_empty() || cache.errors.iter().any(has_met),
        "{name}, {strategy:?}: {:#?}",
        cache.errors
    );
}

/// Checks that every rule fired, according to the ledger.
pub(super) fn assert_fired(sim: &Sim, ids: &[RuleId], what: &str) {
    let records = sim.ledger().records();
    for id in ids {
        let n = records.iter().flat_map(|it| &it.rules).filter(|it| it.fired && it.rule == *id);
        assert!(n.count() > 0, "{what}: rule {id} never fired, so nothing was tried");
    }
}

#[test]
fn a_page_that_has_expired_starts_the_list_over() {
    play(async |sim| {
        (0..N_NODES).for_each(|n| create(sim, n));
        let rule =
            "{id: compact, match: {op: list nodes}, when: {nth: 2}, do: [{cluster.compact: 0}]}";
        sim.fault(serde_saphyr::from_str(rule).unwrap()).unwrap().keep();
        let mut cache = Cache::new(sim, Strategy::ListWatch);
        // Processes the start event and the objects of the first page.
        for _ in 0..4 {
            assert!(cache.step(QUIET).await);
        }
        assert_eq!(sim.ledger().counts().of("list nodes"), 1);
        label(sim, 5, "between the pages");
        cache.settle().await;
        cache.assert_complete();
        assert_fired(sim, &["compact".into()], "an expired page");
        let expired = "continue parameter is too old";
        assert!(cache.errors.iter().any(|it| it.contains(expired)), "{:#?}", cache.errors);
        assert_eq!(cache.n_begun, 2, "the watcher did not start over exactly once");
        assert_eq!(
            sim.ledger().counts().of("list nodes"),
            2 + 3,
            "the watcher did not read every page again"
        );
    });
}

#[test]
fn two_watchers_that_meet_different_failures_end_with_the_same_cache() {
    play(async |sim| {
        (0..N_NODES).for_each(|n| create(sim, n));
        let rules: Vec<Rule> = serde_saphyr::from_str(
            "[{id: gone, match: {op: watch nodes}, when: {every: 2, max: 6}, do: [{watch.gone410After: 1}]}]",
        )
        .unwrap();
        sim.fault_all(rules).unwrap().keep();
        let mut one = Cache::new(sim, Strategy::ListWatch);
        let mut two = Cache::new(sim, Strategy::StreamingList);
        for round in 0..4 {
            one.step(QUIET).await;
            two.settle().await;
            label(sim, 0, &round.to_string());
            delete(sim, round + 2);
            one.settle().await;
        }
        two.settle().await;
        one.assert_complete();
        two.assert_complete();
        assert_fired(sim, &["gone".into()], "two watchers");
    });
}

fn apply(sim: &Sim, command: objects::Command) {
    sim.apply(Command::Cluster(command)).unwrap();
}

pub(super) fn create(sim: &Sim, n: u32) {
    let node =
        serde_json::json!({"metadata": {"name": format!("n{n}"), "labels": {"at": "first"}}});
    apply(sim, objects::Command::create(GroupResource::core("nodes"), "", node));
}

pub(super) fn label(sim: &Sim, n: u32, value: &str) {
    let patch = serde_json::json!({"metadata": {"annotations": {"at": value}}});
    let key = Key::node(format!("n{n}"));
    apply(sim, objects::Command::patch(key, PatchKind::Merge, patch));
}

pub(super) fn delete(sim: &Sim, n: u32) {
    apply(sim, objects::Command::delete(Key::node(format!("n{n}"))));
}
