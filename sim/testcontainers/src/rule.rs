//! Fault rules, in the form that `sim fault add` takes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A fault rule: the calls that it matches, the conditions under which it fires, and its actions.
/// The most common parts have a method. `Rule::from` accepts any other rule as JSON.
///
/// ```
/// use sim_testcontainers::Rule;
///
/// let rule = Rule::new("busy").op("@login").first(2).status(503);
/// let same = Rule::from(serde_json::json!({
///     "id": "busy", "match": {"op": ["@login"]}, "when": {"first": 2}, "do": [{"status": {"code": 503}}]
/// }));
/// assert_eq!(rule, same);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[must_use = "a rule does nothing before it is added"]
pub struct Rule(Value);

impl Rule {
    /// Creates a rule with this id and without actions. The rule matches every call unless
    /// [`op`](Self::op) restricts it.
    pub fn new(id: &str) -> Self {
        Self(json!({"id": id, "do": []}))
    }

    /// Matches only calls of this operation: an exact name (`Login`), a pattern with `*`, or a
    /// class (`@read`, `@write`, `@login`, `@longpoll`, `@task`). Each further `op` adds an
    /// alternative.
    pub fn op(self, pattern: &str) -> Self {
        self.with(|rule| {
            let matcher = &mut rule.entry("match").or_insert_with(|| json!({}))["op"];
            match matcher.as_array_mut() {
                Some(all) => all.push(pattern.into()),
                None => *matcher = json!([pattern]),
            }
        })
    }

    /// Fires only on the first `n_calls` calls that match.
    pub fn first(self, n_calls: u64) -> Self {
        self.when("first", n_calls)
    }

    /// Fires only on the n-th call that matches, counted from 1.
    pub fn nth(self, n: u64) -> Self {
        self.when("nth", n)
    }

    /// Answers with this HTTP status.
    pub fn status(self, code: u16) -> Self {
        self.does(json!({"status": {"code": code}}))
    }

    /// Answers with this SOAP fault, such as `NotAuthenticated`.
    pub fn soap_fault(self, class: &str) -> Self {
        self.does(json!({"soapFault": {"type": class}}))
    }

    /// Delays the handling of the call by this world time, in whole milliseconds.
    pub fn delay(self, by: Duration) -> Self {
        self.does(json!({"delay": format!("{}ms", by.as_millis())}))
    }

    /// Resets the connection.
    pub fn reset(self) -> Self {
        self.does(json!("reset"))
    }

    fn when(self, gate: &str, n: u64) -> Self {
        self.with(|rule| rule.entry("when").or_insert_with(|| json!({}))[gate] = n.into())
    }

    fn does(self, action: Value) -> Self {
        self.with(|rule| {
            if let Some(all) = rule.entry("do").or_insert_with(|| json!([])).as_array_mut() {
                all.push(action);
            }
        })
    }

    fn with(mut self, change: impl FnOnce(&mut Map<String, Value>)) -> Self {
        // sim refuses a rule that is not an object, with a better message.
        if let Value::Object(rule) = &mut self.0 {
            change(rule);
        }
        self
    }
}

impl From<Value> for Rule {
    fn from(rule: Value) -> Self {
        Self(rule)
    }
}

/// An active rule, with its counters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Armed {
    /// The rule, as sim reports it.
    pub rule: Value,
    /// Number of calls that matched.
    pub matched: u64,
    /// Number of calls on which the rule fired.
    pub fired: u64,
}

impl Armed {
    /// Id of the rule.
    pub fn id(&self) -> &str {
        self.rule["id"].as_str().unwrap_or_default()
    }
}
