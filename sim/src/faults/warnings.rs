//! Warnings about valid rules that may be mistaken: they name an operation that no server of the sim
//! answers, or a vim25 fault that the operation does not declare.
//!
//! Such a rule is not an error. A server refuses a call of an operation that it does not have, and
//! the rule still matches that call by the name that the client used.

use super::{Action, Ops, Rule};
use crate::call::vim25;
use crate::document::closest;
use crate::{Face, operations};

/// First words of the operations of a Kubernetes API server.
const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Returns a warning, with rule, key, value and remedy, for each operation in `match.op`, named
/// without `*` or `@`, that no server of the matched protocol answers. A name with a space counts
/// as an operation of a Kubernetes API, whatever the protocol. It passes if it has a known verb and
/// a resource in lower case (or `OpenAPI`). Also returns a warning for each vim25 fault that such an
/// operation does not declare and that is not a `RuntimeFault`, with which every method may end.
pub fn warnings(rule: &Rule) -> Vec<String> {
    let face = rule.matcher.protocol;
    let of_rule = |warning| format!("rule `{}`: match.op {warning}", rule.id);
    let operations = operation_warnings(&rule.matcher.op, face).map(of_rule);
    operations.chain(fault_warnings(rule)).collect()
}

fn fault_warnings(rule: &Rule) -> Vec<String> {
    let mut warnings = Vec::new();
    for action in &rule.actions {
        let Action::SoapFault(fault) = action else { continue };
        let class = &fault.class;
        for operation in rule.matcher.op.patterns().filter(|it| !vim25::may_throw(it, class)) {
            warnings.push(format!(
                "rule `{}`: do.soapFault `{class}` is not a fault that `{operation}` declares; a real vCenter does not answer with it",
                rule.id
            ));
        }
    }
    warnings
}

/// Returns a warning for each pattern that names one operation, if no server of `face` answers that
/// operation, or no server at all if `face` is `None`. A name with a space is checked as an
/// operation of a Kubernetes API even if `face` is one of a vCenter.
pub(crate) fn operation_warnings(ops: &Ops, face: Option<Face>) -> impl Iterator<Item = String> {
    let named =
        ops.patterns().filter(|pattern| !pattern.contains('*') && !pattern.starts_with('@'));
    named.filter_map(move |pattern| warning(pattern, face))
}

fn warning(operation: &str, face: Option<Face>) -> Option<String> {
    match operation.split_once(' ') {
        Some((verb, resource)) => of_cluster(operation, verb, resource),
        None => without_verb(operation, face),
    }
}

/// Checks an operation of a vCenter or a method of Cluster Autoscalers.
fn without_verb(operation: &str, face: Option<Face>) -> Option<String> {
    if face.is_some_and(Face::is_kubernetes) {
        // A cluster names a request `unknown` if it does not concern a resource.
        let remedy = "write a verb and a resource, such as `patch nodes`";
        return (operation != "unknown")
            .then(|| format!("`{operation}` is not an operation of a cluster; {remedy}"));
    }
    let known: Vec<&str> = operations()
        .filter(|(of, _)| face.is_none_or(|face| face == *of))
        .map(|(_, name)| name)
        .collect();
    if known.contains(&operation) {
        return None;
    }
    let hint = match closest(operation, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write the name as in the ledger, or a pattern with *".to_owned(),
    };
    let known_by = match face {
        Some(Face::Autoscaler) => "a method of Cluster Autoscalers",
        _ => "an operation that this vCenter answers",
    };
    Some(format!("`{operation}` is not {known_by}; {hint}"))
}

fn of_cluster(operation: &str, verb: &str, resource: &str) -> Option<String> {
    let is_resource = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-./".contains(&b))
    };
    let hint = if !VERBS.contains(&verb) {
        match closest(verb, &VERBS) {
            Some(near) => format!("did you mean `{near} {resource}`?"),
            None => format!("expected one of {}", VERBS.join(", ")),
        }
    } else if is_resource(resource) || resource == "OpenAPI" {
        return None;
    } else {
        "write a verb and a resource in lower case and plural, such as `patch nodes/status`"
            .to_owned()
    };
    Some(format!("`{operation}` is not an operation of a cluster; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_operation_in_a_rule_gets_a_warning() {
        let vcenter = "is not an operation that this vCenter answers;";
        let cluster = "is not an operation of a cluster;";
        for (operation, face, want) in [
            ("FindByUuid", None, None),
            ("FindByUuid", Some(Face::Soap), None),
            ("tagging.tag.get", None, None),
            ("Find*", None, None),
            ("@login", None, None),
            ("patch nodes/status", None, None),
            ("get leases", Some(Face::Cluster), None),
            ("get /version", None, None),
            ("list widgets.example", None, None),
            ("NoSuchOp", None, Some(format!("`NoSuchOp` {vcenter} write the name as in the ledger, or a pattern with *"))),
            ("FindByUid", None, Some(format!("`FindByUid` {vcenter} did you mean `FindByUuid`?"))),
            ("loginn", None, Some(format!("`loginn` {vcenter} did you mean `Login`?"))),
            ("pach nodes", None, Some(format!("`pach nodes` {cluster} did you mean `patch nodes`?"))),
            (
                "get Node",
                None,
                Some(format!(
                    "`get Node` {cluster} write a verb and a resource in lower case and plural, such as `patch nodes/status`"
                )),
            ),
            (
                "nodes",
                Some(Face::Cluster),
                Some("`nodes` is not an operation of a cluster; write a verb and a resource, such as `patch nodes`".to_owned()),
            ),
        ] {
            let ops: Ops = [operation].into_iter().collect();
            let warnings: Vec<String> = operation_warnings(&ops, face).collect();
            assert_eq!(warnings, want.into_iter().collect::<Vec<_>>(), "{operation}");
        }
        let wrong_face: Ops = ["tagging.tag.get"].into_iter().collect();
        assert_eq!(operation_warnings(&wrong_face, Some(Face::Soap)).count(), 1);
    }

    #[test]
    fn an_undeclared_fault_in_a_rule_gets_a_warning() {
        let rule = |class| Rule::new("a", [Action::soap_fault(class)]).op(["Login", "Find*"]);
        for class in ["InvalidLogin", "SystemError", "NotAuthenticated"] {
            assert_eq!(warnings(&rule(class)), Vec::<String>::new(), "{class}");
        }
        assert_eq!(
            warnings(&rule("InvalidPowerState")),
            [
                "rule `a`: do.soapFault `InvalidPowerState` is not a fault that `Login` declares; a real vCenter does not answer with it"
            ]
        );
    }

    #[test]
    fn a_warning_names_the_rule() {
        let rule = Rule::new("a", []).op(["Loginn", "Login"]);
        assert_eq!(
            warnings(&rule),
            [
                "rule `a`: match.op `Loginn` is not an operation that this vCenter answers; did you mean `Login`?"
            ]
        );
    }
}
