//! Request that reads the ledger.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::header;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminError;
use crate::faults::{self, Ops};
use crate::ledger::{Counts, Kind, Ledger, Record};
use crate::shared_world::Control;

/// Query parameters of `GET /ledger`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LedgerQuery {
    /// First sequence number to return; 0 by default.
    since: u64,
    /// Operations to return: exact names, patterns with `*`, or classes (`@login`), separated by
    /// commas. `None` returns all records.
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

/// `GET /ledger?since=SEQ&op=PATTERN&format=jsonl|counts`: returns the records in memory, or counts
/// of the calls among them. With `op` it returns only records of calls that match. Answers 400 to
/// an invalid query.
pub(super) async fn read(
    State(control): State<Control>,
    wanted: Result<Query<LedgerQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, AdminError> {
    let Query(LedgerQuery { since, op, format }) = wanted.map_err(|rejected| {
        AdminError::bad(rejected.body_text())
            .remedy("expected since=SEQ, op=PATTERN, format=jsonl or format=counts")
    })?;
    let ops = op.as_deref().map(|op| op.split(',').collect::<Ops>());
    if let Some(wrong) = ops.as_ref().and_then(faults::wrong_class) {
        let (what, remedy) = wrong
            .split_once("; ")
            .unwrap_or((wrong.as_str(), "choose another class of operations"));
        return Err(AdminError::bad(format!("op: {what}")).remedy(remedy));
    }
    let chosen = move |record: &Record| match (&ops, record.class) {
        (None, _) => true,
        (Some(ops), Some(class)) => {
            record.kind == Kind::Call && faults::matches_operation(ops, &record.op, class)
        }
        (Some(_), None) => false,
    };
    let parts = Parts::new(control.ledger, since);
    Ok(match format {
        Format::Jsonl => {
            let lines = parts.map(move |part| {
                let chosen = part.iter().filter(|record| chosen(record));
                chosen.map(|record| record.to_line() + "\n").collect::<String>()
            });
            // Skips empty parts, because an empty chunk would end the body.
            let lines = lines.filter(|lines| !lines.is_empty()).map(Ok::<_, Infallible>);
            let body = Body::from_stream(futures::stream::iter(lines));
            ([(header::CONTENT_TYPE, "application/jsonl")], body).into_response()
        }
        Format::Counts => {
            let mut sum = Counts::default();
            for part in parts {
                part.iter().filter(|record| chosen(record)).for_each(|record| sum.add(record));
                // Lets other tasks serve calls between parts.
                tokio::task::yield_now().await;
            }
            axum::Json(counts(&sum)).into_response()
        }
    })
}

/// Maximum number of records that a reader copies under one lock of the ledger. Calls wait
/// meanwhile.
const PART: usize = 256;

/// Iterator over the records from `since` on that exist at its creation, in parts of at most
/// [`PART`] records. A long ledger is thus never copied as a whole.
struct Parts {
    ledger: Ledger,
    next: u64,
    end: u64,
}

impl Parts {
    fn new(ledger: Ledger, since: u64) -> Self {
        let end = ledger.next_seq();
        Self { ledger, next: since, end }
    }
}

impl Iterator for Parts {
    type Item = Vec<Record>;

    fn next(&mut self) -> Option<Vec<Record>> {
        let mut part = self.ledger.part(self.next, PART);
        part.retain(|record| record.seq < self.end);
        self.next = part.last()?.seq + 1;
        Some(part)
    }
}

fn counts(counts: &Counts) -> Value {
    let operations: Vec<Value> = counts
        .by_operation()
        .into_iter()
        .map(|((server, op), n)| json!({"server": server, "op": op, "calls": n}))
        .collect();
    json!({"total": counts.total(), "operations": operations, "clients": counts.by_client()})
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::Sim;

    /// Reads a ledger of ten parts, one poll at a time. Returns how often another task could run
    /// meanwhile, and the body.
    async fn read_beside_others(format: Format) -> (usize, String) {
        let sim = Sim::builder().start();
        for n in 0..10 * PART {
            sim.ledger().note(sim.world().now(), Kind::Note, format!("note {n}"));
        }
        let wanted = LedgerQuery { format, ..LedgerQuery::default() };
        let mut answer = pin!(read(State(sim.control().clone()), Ok(Query(wanted))));
        let mut n_turns = 0;
        let answer = loop {
            match (&mut answer).now_or_never() {
                Some(answer) => break answer.expect("a valid query"),
                None => n_turns += 1,
            }
            tokio::task::yield_now().await;
        };
        let mut body = answer.into_body();
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            text.extend_from_slice(&frame.expect("no error").into_data().expect("data"));
            n_turns += 1;
        }
        (n_turns, String::from_utf8(text).expect("text"))
    }

    #[tokio::test(start_paused = true)]
    async fn other_tasks_run_while_the_admin_port_reads_a_long_ledger() {
        let (n_turns, lines) = read_beside_others(Format::Jsonl).await;
        assert!(n_turns >= 10, "{n_turns}");
        assert_eq!(lines.lines().filter(|line| line.contains("\"note ")).count(), 10 * PART);
        let (n_turns, counts) = read_beside_others(Format::Counts).await;
        assert!(n_turns >= 10, "{n_turns}");
        let counts: Value = serde_json::from_str(&counts).expect("JSON");
        assert_eq!(counts["total"], 0, "the counts must exclude notes");
    }
}
