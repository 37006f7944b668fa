//! What is to fail: rules as `sim fault add` takes them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A fault rule: which calls, when, and what then happens. The most common ones have a method; anything else that the
/// language of rules knows comes in as JSON, by `Rule::from`.
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
    /// A rule of this name, for every call, as long as nothing else is said.
    pub fn new(id: &str) -> Self {
        Self(json!({"id": id, "do": []}))
    }

    /// For calls of this operation only: exact (`Login`), with `*`, or a class (`@read`, `@write`, `@login`, `@longpoll`,
    /// `@task`). May be given again: one of them has to fit.
    pub fn op(self, pattern: &str) -> Self {
        self.with(|rule| {
            let matcher = &mut rule.entry("match").or_insert_with(|| json!({}))["op"];
            match matcher.as_array_mut() {
                Some(all) => all.push(pattern.into()),
                None => *matcher = json!([pattern]),
            }
        })
    }

    /// On the first so many calls only.
    pub fn first(self, n_calls: u64) -> Self {
        self.when("first", n_calls)
    }

    /// On the n-th call only, from 1.
    pub fn nth(self, n: u64) -> Self {
        self.when("nth", n)
    }

    /// The answer is this HTTP status.
    pub fn status(self, code: u16) -> Self {
        self.does(json!({"status": {"code": code}}))
    }

    /// The answer is this SOAP fault, such as `NotAuthenticated`.
    pub fn soap_fault(self, class: &str) -> Self {
        self.does(json!({"soapFault": {"type": class}}))
    }

    /// The answer comes so much later, in world time.
    pub fn delay(self, by: Duration) -> Self {
        self.does(json!({"delay": format!("{}ms", by.as_millis())}))
    }

    /// The connection breaks.
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
        // A rule that came as something else than an object is refused by sim, with a better message.
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

/// A rule that sim has, and what became of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Armed {
    /// The rule, with everything that was left out of it.
    pub rule: Value,
    /// Calls that it is about.
    pub matched: u64,
    /// Calls on which it fired.
    pub fired: u64,
}

impl Armed {
    /// Its name.
    pub fn id(&self) -> &str {
        self.rule["id"].as_str().unwrap_or_default()
    }
}
