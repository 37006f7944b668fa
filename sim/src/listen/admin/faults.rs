//! Requests that list, add and remove fault rules.

use axum::Json;
use axum::extract::{Path, State};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::AdminError;
use crate::document;
use crate::faults::{self, ActiveRule, RuleError, RuleId};
use crate::shared_world::Control;

/// `GET /faults`: returns the rules in force with their counters, in the order of evaluation.
pub(super) async fn list(State(control): State<Control>) -> Json<Vec<ActiveRule>> {
    Json(control.faults.list())
}

/// `POST /faults`: adds the rule or the list of rules in the body (JSON or YAML), all or none.
///
/// The field `warnings` of the answer names operations that no server answers
/// ([`faults::warnings`]). The sim adds rules with such operations too. The error answer is about
/// the first rule that is invalid or whose id is taken.
pub(super) async fn add(
    State(control): State<Control>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), AdminError> {
    let rules = faults::read_rules(document::yaml(&body)?)?;
    let warnings: Vec<String> = rules.iter().flat_map(faults::warnings).collect();
    let added: Vec<RuleId> = rules.iter().map(|rule| rule.id.clone()).collect();
    control.fault_all(rules).map_err(|error| refused(&error))?.keep();
    let mut answer = json!({ "added": added });
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
    Ok((StatusCode::CREATED, Json(answer)))
}

/// `DELETE /faults`: removes every rule.
pub(super) async fn clear(State(control): State<Control>) -> StatusCode {
    control.heal();
    StatusCode::NO_CONTENT
}

/// `DELETE /faults/{id}`: removes one rule; answers 404 if no rule in force has this id.
pub(super) async fn remove(
    State(control): State<Control>,
    Path(id): Path<RuleId>,
) -> Result<StatusCode, AdminError> {
    if control.remove(&id) {
        return Ok(StatusCode::NO_CONTENT);
    }
    let known: Vec<String> =
        control.faults.list().into_iter().map(|armed| armed.rule.id.to_string()).collect();
    let remedy = match known.as_slice() {
        [] => "no rule is in force".to_owned(),
        known => format!("known rules: {}", known.join(", ")),
    };
    let error = AdminError::new(StatusCode::NOT_FOUND, format!("unknown rule `{id}`"));
    Err(error.remedy(remedy))
}

fn refused(error: &RuleError) -> AdminError {
    let status = match error {
        RuleError::Invalid(_) => StatusCode::BAD_REQUEST,
        RuleError::Exists(_) => StatusCode::CONFLICT,
    };
    AdminError::new(status, error.to_string()).remedy("no rule of this request was added")
}
