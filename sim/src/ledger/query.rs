//! Counts of calls per server, operation, caller, object and phase.

use std::collections::BTreeMap;
use std::fmt;

use super::{Kind, Record};

/// Counts of calls per server, operation, caller, object and phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    by: BTreeMap<Cell, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    server: String,
    operation: String,
    client: String,
    object: String,
    phase: String,
}

impl Counts {
    /// Adds a record to the counts if it is a call.
    pub fn add(&mut self, record: &Record) {
        if record.kind != Kind::Call {
            return;
        }
        let target = &record.target;
        let object = target.name.as_ref().or(target.moref.as_ref()).or(target.uuid.as_ref());
        let cell = Cell {
            server: record.server.clone(),
            operation: record.op.clone(),
            client: record.client.client.clone(),
            object: object.cloned().unwrap_or_default(),
            phase: record.phase.as_deref().unwrap_or_default().to_owned(),
        };
        *self.by.entry(cell).or_default() += 1;
    }

    /// Number of calls in all counts together.
    pub fn total(&self) -> u64 {
        self.by.values().sum()
    }

    /// Returns the number of calls per server and operation.
    pub fn by_operation(&self) -> BTreeMap<(String, String), u64> {
        self.sum(|cell| (cell.server.clone(), cell.operation.clone()))
    }

    /// Returns the number of calls of one operation, at all servers together.
    pub fn of(&self, operation: &str) -> u64 {
        let same = self.by.iter().filter(|(cell, _)| cell.operation == operation);
        same.map(|(_, n)| n).sum()
    }

    /// Returns the number of calls per caller ([`Caller::client`](crate::Caller::client)).
    pub fn by_client(&self) -> BTreeMap<String, u64> {
        self.sum(|cell| cell.client.clone())
    }

    /// Returns the number of calls per object. The key is the object's name, else its managed
    /// object id, else its UUID; for calls that name no object it is the empty text.
    pub fn by_object(&self) -> BTreeMap<String, u64> {
        self.sum(|cell| cell.object.clone())
    }

    /// Returns the number of calls per phase; calls without a phase are under the empty text.
    pub fn by_phase(&self) -> BTreeMap<String, u64> {
        self.sum(|cell| cell.phase.clone())
    }

    fn sum<K: Ord>(&self, key: impl Fn(&Cell) -> K) -> BTreeMap<K, u64> {
        let mut sums = BTreeMap::new();
        for (cell, n) in &self.by {
            *sums.entry(key(cell)).or_default() += n;
        }
        sums
    }
}

impl FromIterator<Record> for Counts {
    fn from_iter<T: IntoIterator<Item = Record>>(records: T) -> Self {
        let mut counts = Self::default();
        records.into_iter().for_each(|record| counts.add(&record));
        counts
    }
}

impl fmt::Display for Counts {
    /// Writes one line per server and operation, with its count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((server, operation), n) in self.by_operation() {
            writeln!(f, "{server:<8} {operation:<34} {n:>6}")?;
        }
        Ok(())
    }
}
