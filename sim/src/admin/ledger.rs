//! Reads the ledger.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::header;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminError;
use crate::control::Control;
use crate::faults::Ops;
use crate::ledger::{Counts, Kind, Record};

/// What to read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    /// From this sequence number on.
    since: u64,
    /// Calls of these operations only: exact, with `*`, or a class (`@login`).
    op: Option<String>,
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Jsonl,
    Counts,
}

/// `GET /ledger?since=SEQ&op=PATTERN&format=jsonl|counts`.
pub(super) async fn read(
    State(control): State<Control>,
    wanted: Result<Query<Wanted>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, AdminError> {
    let Query(Wanted { since, op, format }) = wanted.map_err(|rejected| {
        AdminError::bad(rejected.body_text())
            .remedy("there are since=SEQ, op=PATTERN and format=jsonl or counts")
    })?;
    let ops = op.as_deref().map(|op| Ops(op.split(',').map(str::to_owned).collect()));
    if let Some(wrong) = ops.as_ref().and_then(Ops::wrong_class) {
        let (what, remedy) = wrong.split_once("; ").unwrap_or((wrong.as_str(), "choose another"));
        return Err(AdminError::bad(format!("op: {what}")).remedy(remedy));
    }
    let chosen = |record: &Record| match (&ops, record.class) {
        (None, _) => true,
        (Some(ops), Some(class)) => record.kind == Kind::Call && ops.matches(&record.op, class),
        (Some(_), None) => false,
    };
    let records = control.ledger.since(since).into_iter().filter(chosen);
    Ok(match format {
        Format::Jsonl => {
            let lines: String = records.map(|record| record.to_line() + "\n").collect();
            ([(header::CONTENT_TYPE, "application/jsonl")], Body::from(lines)).into_response()
        }
        Format::Counts => axum::Json(counts(&records.collect())).into_response(),
    })
}

fn counts(counts: &Counts) -> Value {
    let operations: Vec<Value> = counts
        .by_operation()
        .into_iter()
        .map(|((server, op), n)| json!({"server": server, "op": op, "calls": n}))
        .collect();
    json!({"total": counts.total(), "operations": operations, "clients": counts.by_client()})
}
