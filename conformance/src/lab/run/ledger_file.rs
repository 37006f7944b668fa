//! Reads ledger files, which `sim serve --ledger`, `sim ledger` and `conformance run --out` write.

use std::path::Path;

use sim::ledger::Record;
use sim::world::Time;

use crate::scenario::InputError;

/// Reads the records of a ledger file. The cases stay in the order of the file, and the records of
/// each case are in the order in which the calls arrived.
///
/// # Errors
/// Fails if the file cannot be read, or if a line is neither a record nor the begin of a case. The
/// error names the file, the line and the remedy.
pub(crate) fn records(path: &Path) -> Result<Vec<Record>, InputError> {
    let text = text(path)?;
    let mut records: Vec<Record> = Vec::new();
    // Index of the first record of the current case.
    let mut of_case = 0;
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match Record::from_line(line) {
            Ok(record) => records.push(record),
            // In a file of `conformance run --out`, this line begins a case.
            Err(_) if line.starts_with("{\"check\":") => {
                settle(&mut records, of_case);
                of_case = records.len();
            }
            Err(error) => {
                let remedy = "a ledger has one record per line, as `sim ledger` prints them";
                return Err(wrong_line(path, n, &error).remedy(remedy));
            }
        }
    }
    settle(&mut records, of_case);
    Ok(records)
}

/// The ledger of one sim, with the first gap if records are missing.
pub(crate) struct OneLedger {
    pub(crate) records: Vec<Record>,
    /// Sequence number of the first missing record, and the time of the last record before it (zero
    /// if the first record is missing); `None` if no record before the last one is missing.
    pub(crate) gap: Option<(u64, Time)>,
}

/// Reads the ledger of one sim. Leaves out a last line without a line break, because the sim may
/// still be writing it.
///
/// # Errors
/// Fails if the file cannot be read, or if a line is not a record. The error names the file, the
/// line and the remedy.
pub(crate) fn read_one(path: &Path) -> Result<OneLedger, InputError> {
    let text = text(path)?;
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let mut records = Vec::new();
    for (n, line) in lines.enumerate() {
        records.push(Record::from_line(line).map_err(|error| {
            wrong_line(path, n, &error).remedy("name a file of `sim serve --ledger`")
        })?);
    }
    settle(&mut records, 0);
    let mut last = Time::ZERO;
    let mut gap = None;
    for (wanted, record) in (1..).zip(&records) {
        if record.seq != wanted {
            gap = Some((wanted, last));
            break;
        }
        last = record.t;
    }
    Ok(OneLedger { records, gap })
}

fn text(path: &Path) -> Result<String, InputError> {
    std::fs::read_to_string(path).map_err(|error| {
        InputError::in_flag("--ledger", path.display(), format!("cannot be read: {error}"))
            .remedy("name a ledger.jsonl")
    })
}

/// Returns the error about the line with index `n`, without a remedy.
fn wrong_line(path: &Path, n: usize, error: &impl std::fmt::Display) -> InputError {
    let ledger = format!("--ledger {}", path.display());
    InputError::new(error.to_string()).in_source(ledger).at_key(format!("line {}", n + 1))
}

/// Sorts the records from index `from` on, which belong to one case, into the order in which the
/// calls arrived.
///
/// A sim writes a call when it ends, and a long call also while it is open. Of two lines for one
/// call, the function keeps the later one.
fn settle(records: &mut Vec<Record>, from: usize) {
    let mut case = records.split_off(from);
    case.sort_by_key(|record| record.seq);
    case.dedup_by(|later, earlier| {
        let is_same = later.seq == earlier.seq;
        if is_same {
            std::mem::swap(later, earlier);
        }
        is_same
    });
    records.append(&mut case);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_call_counts_where_a_ledger_has_two() {
        let line = |seq: u64, status: Option<u16>| {
            let ended = status.map(
                |status| serde_json::json!({"at": 1, "status": status, "objects": 0, "bytes": 0}),
            );
            let mut line = serde_json::json!({"seq": seq, "t": 0, "kind": "call", "op": format!("call {seq}")});
            if let Some(ended) = ended {
                line["ended"] = ended;
            }
            Record::from_line(&line.to_string()).expect("a record")
        };
        let mut records =
            vec![line(9, None), line(2, None), line(3, Some(200)), line(2, Some(200))];
        records.push(line(1, Some(200)));
        settle(&mut records, 1);
        let seen: Vec<_> = records.iter().map(|it| (it.seq, it.ended.is_some())).collect();
        assert_eq!(seen, [(9, false), (1, true), (2, true), (3, true)], "the case before is whole");
    }
}
