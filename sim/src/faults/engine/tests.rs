use super::*;
use crate::{Caller, Class, Face, RequestNote, Target};

fn call(operation: &str, client: &str) -> Call {
    Call {
        face: Face::Soap,
        server: "vc0".into(),
        operation: operation.into(),
        class: Class::Read,
        target: Target { name: Some("node-0001".into()), ..Target::default() },
        caller: Caller { client: client.into(), ..Caller::default() },
        session: None,
        request: RequestNote::default(),
    }
}

impl Faults {
    fn add(&self, now: Time, rule: Rule) -> Result<(), RuleError> {
        self.add_all(now, vec![rule]).map(drop)
    }
}

fn reset() -> Rule {
    Rule::new("r", [Action::Reset])
}

fn fires(rule: Rule, calls: u64) -> Vec<u64> {
    let faults = Faults::new(7);
    faults.add(Time::ZERO, rule).unwrap();
    (1..=calls)
        .filter(|n| {
            let now = Time::after_start(Duration::from_secs(*n));
            faults.judge(&call("FindByUuid", "p"), now).ending.is_some()
        })
        .collect()
}

#[test]
fn a_rule_fires_at_the_matches_that_its_conditions_select() {
    let split = r#"{"id": "r", "when": {"nth": [1, "4..5"]}, "do": ["reset"]}"#;
    for (name, rule, want) in [
        ("nothing", reset(), vec![1, 2, 3, 4, 5, 6]),
        ("nth", serde_json::from_str(split).unwrap(), vec![1, 4, 5]),
        ("a range", reset().nth_range(2, 3), vec![2, 3]),
        ("first", reset().first(2), vec![1, 2]),
        ("after", reset().after(4), vec![5, 6]),
        ("every", reset().every(3), vec![3, 6]),
        ("max", reset().max(2), vec![1, 2]),
        ("every and max", reset().every(2).max(1), vec![2]),
        ("never", reset().probability(0.0), vec![]),
        ("surely", reset().probability(1.0), vec![1, 2, 3, 4, 5, 6]),
        ("between", reset().between(Duration::from_secs(2), Duration::from_secs(4)), vec![2, 3]),
    ] {
        assert_eq!(fires(rule, 6), want, "{name}");
    }
}

#[test]
fn the_random_draws_of_a_rule_do_not_depend_on_other_rules() {
    let run = |others: bool| -> Vec<bool> {
        let faults = Faults::new(24301);
        if others {
            let rule = Rule::new("a", [Action::EmptyResult]).probability(0.5);
            faults.add(Time::ZERO, rule).unwrap();
        }
        let rule = Rule::new("b", [Action::Reset]).probability(0.5);
        faults.add(Time::ZERO, rule).unwrap();
        (0..64).map(|_| faults.judge(&call("x", "p"), Time::ZERO).ending.is_some()).collect()
    };
    let alone = run(false);
    assert_eq!(alone, run(true));
    assert!(alone.contains(&true) && alone.contains(&false));
}

#[test]
fn a_replaced_answer_skips_later_rules_and_delays_add_up() {
    let faults = Faults::new(0);
    let second = Duration::from_secs(1);
    for rule in [
        Rule::new("slow", [Action::Delay(second)]),
        Rule::new("both", [Action::Delay(second), Action::Reset, Action::Delay(second)]).applied(),
        Rule::new("late", [Action::Blackhole]),
    ] {
        faults.add(Time::ZERO, rule).unwrap();
    }
    let verdict = faults.judge(&call("x", "p"), Time::ZERO);
    assert_eq!(verdict.delay, 2 * second);
    assert_eq!(verdict.ending, Some(ReplacedAnswer::Reset));
    assert!(verdict.applied);
    assert_eq!(verdict.evaluations.len(), 2);
    assert_eq!(faults.fired("late"), 0);
}

#[test]
fn a_rule_with_a_lower_priority_is_evaluated_before_earlier_rules() {
    let faults = Faults::new(0);
    faults.add(Time::ZERO, Rule::new("b", [Action::Reset])).unwrap();
    let first = Rule::new("a", [Action::Blackhole]).priority(-1);
    faults.add(Time::ZERO, first).unwrap();
    assert_eq!(faults.judge(&call("x", "p"), Time::ZERO).ending, Some(ReplacedAnswer::Blackhole));
}

#[test]
fn a_rule_is_removed_at_the_end_of_its_lifetime() {
    let faults = Faults::new(0);
    let rule = reset().ttl(Duration::from_secs(10));
    faults.add(Time::ZERO, rule).unwrap();
    assert!(
        faults.judge(&call("x", "p"), Time::after_start(Duration::from_secs(9))).ending.is_some()
    );
    assert!(
        faults.judge(&call("x", "p"), Time::after_start(Duration::from_secs(10))).ending.is_none()
    );
    assert!(faults.list().is_empty());
}

#[test]
fn rules_stay_equal_when_they_are_written_as_json_and_read_again() {
    let text = r#"
- id: pc-faults
  match: {protocol: soap, op: [RetrieveProperties*, "@login"], resource: {name: n7}}
  when: {nth: [1, 4..6], between: [5m, 12m]}
  do: [{delay: 2s}, {soapFault: {type: SystemError, message: vpxd busy}}]
  effect: applied
- id: one
  match: {op: watch nodes}
  when: {nth: 3}
  do: [watch.gone410]
- id: watches
  do: [{watch.gone410After: 3}, {watch.closeAfter: 4}, {watch.holdAfter: 2}, {cluster.compact: 1}]
"#;
    let rules: Vec<Rule> = serde_saphyr::from_str(text).unwrap();
    assert_eq!(
        [1, 3, 4, 6, 7].map(|n| rules[0].when.nth.includes(n)),
        [true, false, true, true, false]
    );
    assert_eq!(rules[1].actions, vec![Action::WatchGone]);
    assert_eq!(
        rules[2].actions,
        vec![
            Action::WatchGoneAfter(3),
            Action::WatchCloseAfter(4),
            Action::WatchHoldAfter(2),
            Action::Compact(1)
        ]
    );
    let json = serde_json::to_string(&rules).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Rule>>(&json).unwrap(), rules);
}

#[test]
fn an_invalid_rule_is_refused_with_a_remedy() {
    for (name, rule, want) in [
        ("no name", Rule::new("", [Action::Reset]), "id is empty"),
        ("no action", Rule::new("r", []), "name at least one action"),
        ("fault class", Rule::new("r", [Action::soap_fault("Nope")]), "try SystemError"),
        ("class", Rule::new("r", [Action::Reset]).op(["@reed"]), "is not a class"),
        (
            "a watch elsewhere",
            Rule::new("r", [Action::WatchHoldAfter(1)]).on(Face::Soap),
            "watch.holdAfter works only in a Kubernetes API",
        ),
        ("code", Rule::new("r", [Action::status(42)]), "is not a status of HTTP"),
    ] {
        let refused = Faults::new(0).add(Time::ZERO, rule).unwrap_err().to_string();
        assert!(refused.contains(want), "{name}: {refused}");
    }
}

#[test]
fn a_spoil_action_is_read_from_yaml_and_refused_if_it_changes_nothing() {
    use crate::faults::Spoil;
    let text = "[{spoil: unknownMembers}, {spoil: {cutShort: 50}}, {spoil: {padded: 3}}]";
    let actions: Vec<Action> = serde_saphyr::from_str(text).unwrap();
    let wanted = [Spoil::UnknownMembers, Spoil::CutShort(50), Spoil::Padded(3)];
    assert_eq!(actions, wanted.map(Action::Spoil));
    let faults = Faults::new(0);
    faults.add(Time::ZERO, Rule::new("bad", [actions[1].clone()])).unwrap();
    let ending = faults.judge(&call("x", "p"), Time::ZERO).ending;
    assert_eq!(ending, Some(ReplacedAnswer::Spoil(Spoil::CutShort(50))));
    for (spoil, refused) in [
        (
            Spoil::CutShort(100),
            "rule `bad`: spoil.cutShort is 100, which cuts nothing off; write 0 to 99 percent",
        ),
        (
            Spoil::Padded(0),
            "rule `bad`: spoil.padded is 0, which changes nothing; write 1 MiB or more",
        ),
    ] {
        assert_eq!(check(&Rule::new("bad", [Action::Spoil(spoil)])), Err(refused.to_owned()));
    }
}

/// Rules with one action each, in the form of a document.
const ONE_OF_EACH: &str = r#"
- delay: 2s
- soapFault: {type: SystemError}
- status: {code: 503}
- reset
- blackhole
- streamReset
- goaway
- grpcStatus: {code: 14}
- trailersOnly
- truncate: {bytes: 1}
- spoil: deep
- emptyResult
- hide: node-0001
- missingSet: {paths: [guest], fault: SystemError}
- updates.versionReset
- watch.gone410
- watch.gone410After: 1
- watch.silent
- watch.noBookmark
- watch.closeAfter: 1
- watch.holdAfter: 1
- watch.duplicate
- watch.delay: 1s
- watch.lasts: 1s
- list.partial: 1
- list.stale: 1
- read.stale: 1
- list.continueExpired
- webhook.conversionDown
- webhook.deny: {}
- webhook.unreachable
- k8sStatus: {code: 500}
- throttle: {}
- notServed
- namespaceTerminating
- cluster.compact: 1
"#;

#[test]
fn every_action_changes_the_verdict_about_a_call() {
    let actions: Vec<Action> = serde_saphyr::from_str(ONE_OF_EACH).unwrap();
    let unknown = serde_json::from_str::<Action>(r#""?""#).unwrap_err().to_string();
    let names = unknown.split('`').skip(3).step_by(2).count();
    assert_eq!(actions.len(), names, "the list lacks an action of {unknown}");
    for action in actions {
        let faults = Faults::new(0);
        faults.add(Time::ZERO, Rule::new("r", [action.clone()])).unwrap();
        let verdict = faults.judge(&call("x", "p"), Time::ZERO);
        let unchanged = Verdict { evaluations: verdict.evaluations.clone(), ..Verdict::default() };
        assert_ne!(verdict, unchanged, "{action:?} has no effect");
    }
}
