//! Tests of the addition and the removal of fault rules.

use std::time::Duration;

use sim::Sim;
use sim::faults::{Action, Rule, RuleError};
use sim::ledger::Kind;

use crate::client::{Client, machines};

fn reset(id: &str) -> Rule {
    Rule::new(id, [Action::Reset])
}

/// Returns the texts of the ledger's notes about rules.
fn notes(sim: &Sim) -> Vec<String> {
    let records = sim.ledger().records().into_iter();
    records.filter(|record| record.kind == Kind::Fault).map(|record| record.op).collect()
}

fn ids(sim: &Sim) -> Vec<String> {
    sim.faults().list().into_iter().map(|it| it.rule.id.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_rule_ends_when_its_guard_is_dropped_unless_it_is_kept() {
    let sim = machines(1);
    {
        let _both = sim.fault_all([reset("a"), reset("b")]).unwrap();
        sim.fault(reset("stays")).unwrap().keep();
        assert_eq!(ids(&sim), ["a", "b", "stays"]);
    }
    assert_eq!(ids(&sim), ["stays"]);
    let noted = ["rule a added", "rule b added", "rule stays added", "rule a removed"];
    assert_eq!(notes(&sim)[..4], noted);
    assert_eq!(notes(&sim)[4..], ["rule b removed"]);
}

#[tokio::test(start_paused = true)]
async fn a_guard_does_not_remove_a_later_rule_with_the_same_id() {
    let sim = machines(1);
    let first = sim.fault(reset("a")).unwrap();
    sim.heal();
    sim.fault(reset("a")).unwrap().keep();
    drop(first);
    assert_eq!(ids(&sim), ["a"]);
    assert_eq!(notes(&sim), ["rule a added", "all rules removed", "rule a added"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_a_wrong_rule_adds_no_rule_and_the_error_names_the_rule() {
    let sim = machines(1);
    sim.fault(reset("known")).unwrap().keep();
    for (name, wrong, want) in [
        ("the id of a rule in force", reset("known"), RuleError::Exists("known".into())),
        ("the id of an earlier rule", reset("new"), RuleError::Exists("new".into())),
        (
            "an invalid rule",
            Rule::new("empty", []),
            RuleError::Invalid("rule `empty`: do is empty; name at least one action".to_owned()),
        ),
        (
            "a rule without an id",
            reset(""),
            RuleError::Invalid("[1]: id is empty; give the rule a name".to_owned()),
        ),
    ] {
        let refused = sim.fault_all([reset("new"), wrong]).expect_err(name);
        assert_eq!(refused, want, "{name}");
        assert_eq!((ids(&sim).len(), notes(&sim).len()), (1, 1), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_ledger_notes_the_end_of_a_rules_lifetime_before_the_next_call() {
    let sim = machines(1);
    sim.fault(Rule::new("short", [Action::EmptyResult]).ttl(Duration::from_secs(5)))
        .unwrap()
        .keep();
    tokio::time::advance(Duration::from_secs(5)).await;
    Client::logged_in(&sim).await;
    let records = sim.ledger().records();
    let end = records.iter().position(|it| it.op == "rule short removed: its lifetime is over");
    let call = records.iter().position(|it| it.kind == Kind::Call);
    assert!(end.is_some() && end < call, "{records:#?}");
}
