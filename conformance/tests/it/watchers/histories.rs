//! Plays random histories of changes to Nodes, failures, and polls by two watchers. At the end of
//! each history, both caches must be complete.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::{Just, any, prop, prop_oneof};
use proptest::strategy::Strategy as Generator;
use proptest::test_runner::{Config, TestRng, TestRunner};
use sim::Sim;
use sim::faults::{Action, HttpStatus, Rule, RuleId};
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, ControlPlane};

use super::cache::{Cache, Strategy, play};

/// Number of names for Nodes.
const N_NAMES: u32 = 6;

#[derive(Clone, Debug)]
enum Happening {
    Create(u32),
    Annotate(u32, u8),
    Delete(u32),
    /// The server compacts its log, except for this number of changes.
    Compact(usize),
    /// A failure of `calls + 1` successive calls; the first is the `from`-th one after this event.
    /// Affects lists and watches if `lists` is true, else only watches.
    Trouble {
        action: Action,
        lists: bool,
        from: u64,
        calls: u64,
    },
    Heal,
    /// The cache with the first number processes at most the second number of events.
    Poll(usize, u32),
    /// The cache with the first number runs for the second number of seconds.
    Wait(usize, u64),
}

fn happening() -> impl Generator<Value = Happening> {
    use Happening::*;
    let name = 0..N_NAMES;
    let cache = 0..Strategy::ALL.len();
    prop_oneof![
        4 => name.clone().prop_map(Create),
        6 => (name.clone(), any::<u8>()).prop_map(|(name, value)| Annotate(name, value)),
        3 => name.prop_map(Delete),
        2 => (0_usize..4).prop_map(Compact),
        5 => (trouble(), any::<bool>(), 1_u64..3, 1_u64..4).prop_map(|(action, lists, from, calls)| {
            Trouble { action, lists, from, calls }
        }),
        1 => Just(Heal),
        8 => (cache.clone(), 1_u32..6).prop_map(|(cache, n)| Poll(cache, n)),
        4 => (cache, 1_u64..900).prop_map(|(cache, seconds)| Wait(cache, seconds)),
    ]
}

fn trouble() -> impl Generator<Value = Action> {
    let after = 0_u64..5;
    let status = |code, retry_after: Option<u32>| {
        Action::from(HttpStatus::new(code).retry_after(retry_after))
    };
    prop_oneof![
        Just(Action::WatchGone),
        after.clone().prop_map(Action::WatchGoneAfter),
        after.clone().prop_map(Action::WatchCloseAfter),
        after.prop_map(Action::WatchHoldAfter),
        Just(Action::WatchSilent),
        Just(Action::WatchNoBookmark),
        (0_u64..2000).prop_map(Action::truncate),
        (0_usize..3).prop_map(Action::Compact),
        Just(status(429, Some(3))),
        Just(status(500, None)),
        Just(status(503, None)),
        Just(Action::Reset),
        Just(Action::Delay(Duration::from_secs(20))),
    ]
}

/// Number of times that each kind of failure fired, in all histories together.
type Fired = BTreeMap<String, u64>;

#[test]
fn a_cache_shows_only_states_that_existed_and_ends_complete() {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    // The seed is fixed, so that a failure comes from a code change.
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let fired = RefCell::new(Fired::new());
    let histories = prop::collection::vec(happening(), 1..40);
    let result = runner.run(&histories, |history| {
        play(async |sim| live(sim, &history, &fired).await);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let fired = fired.into_inner();
    assert_eq!(fired.len(), 13, "not every kind of failure fired: {fired:#?}");
    assert!(
        fired.values().all(|n| *n >= 10),
        "a kind of failure fired too rarely to prove anything: {fired:#?}"
    );
}

async fn live(sim: &Sim, history: &[Happening], fired: &RefCell<Fired>) {
    // This Node always exists, so that no cache is empty at the end.
    create(sim, "stays");
    let mut caches = Strategy::ALL.map(|strategy| Cache::new(sim, strategy));
    let mut rules = BTreeMap::new();
    for (n, happening) in history.iter().enumerate() {
        match happening {
            Happening::Create(name) => create(sim, &format!("n{name}")),
            Happening::Annotate(name, value) => {
                let patch =
                    serde_json::json!({"metadata": {"annotations": {"v": value.to_string()}}});
                let key = Key::node(format!("n{name}"));
                attempt(sim, objects::Command::patch(key, PatchKind::Merge, patch));
            }
            Happening::Delete(name) => {
                attempt(sim, objects::Command::delete(Key::node(format!("n{name}"))));
            }
            Happening::Compact(keep) => {
                sim.apply(Command::CompactCluster { plane: ControlPlane::Workload, keep: *keep })
                    .unwrap();
            }
            Happening::Trouble { action, lists, from, calls } => {
                let rule = RuleId::from(n.to_string());
                rules.insert(rule.clone(), kind(action));
                let op = if *lists { "* nodes" } else { "watch nodes" };
                let rule = Rule::new(rule, [action.clone()]).op([op]);
                sim.fault(rule.nth_range(*from, from + calls)).unwrap().keep();
            }
            Happening::Heal => sim.heal(),
            Happening::Poll(cache, n) => {
                for _ in 0..*n {
                    caches[*cache].step(Duration::from_secs(1)).await;
                }
            }
            Happening::Wait(cache, seconds) => {
                let over = tokio::time::Instant::now() + Duration::from_secs(*seconds);
                while caches[*cache].step(over - tokio::time::Instant::now()).await {}
            }
        }
    }
    sim.heal();
    for cache in &mut caches {
        cache.settle().await;
        cache.assert_complete();
    }
    let records = sim.ledger().records();
    let mut fired = fired.borrow_mut();
    for evaluation in records.iter().flat_map(|record| &record.rules).filter(|it| it.fired) {
        *fired.entry(rules[&evaluation.rule].clone()).or_default() += 1;
    }
}

/// Returns the name of a kind of failure: without numbers, except the code of a status.
fn kind(action: &Action) -> String {
    let text = format!("{action:?}");
    match action {
        Action::Status(status) => format!("status {}", status.code),
        _ => text.split([' ', '(']).next().unwrap_or_default().to_owned(),
    }
}

fn create(sim: &Sim, name: &str) {
    let node = serde_json::json!({"metadata": {"name": name}});
    attempt(sim, objects::Command::create(GroupResource::core("nodes"), "", node));
}

/// Applies a command. It may fail because the object exists already or no longer exists.
fn attempt(sim: &Sim, command: objects::Command) {
    let refused = sim.apply(Command::Cluster(command)).err();
    let is_expected = |fault: &sim::world::Fault| matches!(fault, sim::world::Fault::Cluster(status) if matches!(status.code, 404 | 409));
    assert!(refused.as_ref().is_none_or(is_expected), "{refused:?}");
}
