//! Fault rules in force, as the admin port reports them.

use serde::Deserialize;
use sim_rules::Rule;

/// A rule in force, with its counters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Armed {
    /// The rule as it was added.
    pub rule: Rule,
    /// Number of calls that matched.
    pub matched: u64,
    /// Number of calls on which the rule fired.
    pub fired: u64,
}

impl Armed {
    /// Id of the rule, which [`Admin::remove`](crate::Admin::remove) takes.
    pub fn id(&self) -> &str {
        self.rule.id.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sim_rules::Action;

    use super::*;

    #[test]
    fn a_rule_in_force_is_read_as_the_rule_that_was_added() {
        let rule = Rule::new("busy", [Action::status(503)]).op(["@login"]).first(2);
        let answer = json!({"rule": &rule, "matched": 3, "fired": 2, "added": 5_000_000_000_u64});
        let armed: Armed = serde_json::from_value(answer).expect("an answer of the admin port");
        assert_eq!(armed, Armed { rule, matched: 3, fired: 2 });
    }
}
