//! Label selectors in their form inside objects (`metav1.LabelSelector`): their checks, their
//! meaning, and their text.

use std::collections::BTreeSet;

use serde_json::Value;

use super::labels::{LabelSelector, Operator, Requirement};
use crate::FieldErrors;
use crate::object::{fields, meta, names};

impl LabelSelector {
    /// Reads the `matchLabels` and `matchExpressions` of a selector inside an object. An empty
    /// selector selects everything; a missing one (null) selects nothing and gives `None`. An
    /// invalid one gives `None`, too.
    ///
    /// Follows `apimachinery: pkg/apis/meta/v1/helpers.go`, `LabelSelectorAsSelector`.
    pub fn from_object(selector: &Value) -> Option<Self> {
        let selector = selector.as_object()?;
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let equal = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::In(value.as_str().map(str::to_owned).into_iter().collect()),
        };
        let mut all: Vec<Requirement> = labels.into_iter().flatten().map(equal).collect();
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let key = fields::text(expression, "/key").to_owned();
            let values: BTreeSet<String> = fields::list(expression, "/values")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let operator = match (fields::text(expression, "/operator"), values.is_empty()) {
                ("In", false) => Operator::In(values),
                ("NotIn", false) => Operator::NotIn(values),
                ("Exists", true) => Operator::Exists,
                ("DoesNotExist", true) => Operator::DoesNotExist,
                _ => return None,
            };
            all.push(Requirement { key, operator });
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Some(Self(all))
    }

    /// Returns the selector of a map of labels, such as the `selector` of a
    /// ReplicationController. An empty or missing map selects everything.
    pub fn from_labels(labels: &Value) -> Self {
        Self::from_object(&serde_json::json!({"matchLabels": labels})).unwrap_or_default()
    }

    /// The text that the real server writes into a Scale and into columns: `a=b` for equality,
    /// `a in (b,c)` for several values.
    pub fn text(&self) -> String {
        let one = |Requirement { key, operator }: &Requirement| match operator {
            Operator::In(values) if values.len() == 1 => {
                format!("{key}={}", values.iter().next().map_or("", String::as_str))
            }
            _ => {
                Self(vec![Requirement { key: key.clone(), operator: operator.clone() }]).to_string()
            }
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

/// Checks a selector inside an object, which is at `path`.
///
/// Follows `apimachinery: pkg/apis/meta/v1/validation/validation.go`, `ValidateLabelSelector`.
pub(crate) fn validate(selector: &Value, path: &str, errors: &mut FieldErrors) {
    meta::validate_labels(&selector["matchLabels"], &format!("{path}.matchLabels"), errors);
    for (at, expression) in fields::list(selector, "/matchExpressions").iter().enumerate() {
        validate_expression(expression, &format!("{path}.matchExpressions[{at}]"), errors);
    }
}

fn validate_expression(expression: &Value, path: &str, errors: &mut FieldErrors) {
    let values = fields::list(expression, "/values");
    match fields::text(expression, "/operator") {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(format!("{path}.values"), why);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(format!("{path}.values"), why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let why = "not a valid selector operator";
            errors.invalid(format!("{path}.operator"), &other.into(), why);
        }
    }
    let key = fields::text(expression, "/key");
    for why in names::qualified_name_problems(key) {
        errors.invalid(format!("{path}.key"), &key.into(), &why);
    }
    for (at, value) in values.iter().enumerate() {
        for why in names::label_value_problems(value.as_str().unwrap_or_default()) {
            errors.invalid(format!("{path}.values[{at}]"), value, &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_in_an_object_selects_and_prints_as_the_real_one() {
        let selector = json!({
            "matchLabels": {"tier": "web", "app": "shop"},
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        let selector = LabelSelector::from_object(&selector).unwrap();
        assert_eq!(selector.text(), "app=shop,!old,tier=web,zone in (a,b)");
        let pod = |labels: Value| json!({"metadata": {"labels": labels}});
        let fits = json!({"app": "shop", "tier": "web", "zone": "a"});
        assert!(selector.matches(&pod(fits)));
        let old = json!({"app": "shop", "tier": "web", "zone": "a", "old": ""});
        assert!(!selector.matches(&pod(old)));
        assert_eq!(LabelSelector::from_object(&Value::Null), None);
        assert!(LabelSelector::from_object(&json!({})).unwrap().matches(&pod(json!({}))));
        let wrong = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        assert_eq!(LabelSelector::from_object(&wrong), None);
    }
}
