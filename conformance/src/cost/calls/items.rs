//! Adds up marked calls and computes their prices. A price is a number of calls of a large fleet.

use std::collections::BTreeMap;

use serde::Serialize;
use sim::ledger::{Kind, Record};
use sim::{Class, Face};

use super::need::{Mark, Need, marks};
use super::trigger::Trigger;
use crate::cost::Fit;

/// Sizes of large fleets, in nodes, for which a report computes prices (numbers of calls).
pub(super) const FLEETS: [u32; 2] = [1000, 5000];

/// Calls of a provider, by need.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReport {
    /// Name of the provider or ledger.
    pub name: String,
    /// Method by which the report computes the prices, that is, the calls of large fleets.
    pub price: Projection,
    /// Fleet sizes of the ledgers, in nodes; empty if the size is unknown.
    pub nodes: Vec<u32>,
    /// Address sync period in seconds; of a captured ledger, the default of 300.
    pub status_period: u32,
    /// Number of calls by need, of all fleet sizes together; includes calls that wait for changes.
    pub calls: BTreeMap<&'static str, u64>,
    /// Items for needed calls and for calls that can be saved, the most expensive first. Calls that
    /// wait for changes are in no item.
    pub items: Vec<Item>,
}

/// Method by which a report computes prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Projection {
    /// Fits a + b·N over at least two fleet sizes, for each item.
    Fitted,
    /// Extrapolates from one fleet size. Assumes that an item grows with the fleet if it has at
    /// least one call per two nodes and is not about NotReady nodes, and that it stays constant
    /// otherwise.
    Proportional,
    /// The fleet size is unknown, so the items have no prices.
    Unknown,
}

/// Calls of one operation with the same need, trigger, server and remedy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Need for the calls.
    pub need: Need,
    /// Trigger of the calls.
    pub trigger: Trigger,
    /// Server that answered the calls.
    pub server: &'static str,
    /// Operation of the calls.
    pub operation: String,
    /// Number of calls by fleet size; calls of a fleet of unknown size have the key 0.
    pub calls: BTreeMap<u32, u64>,
    /// Number of calls that are one of many about one object each, of all fleet sizes together.
    pub per_object: u64,
    /// Fit of the calls over the fleet sizes; `None` if the report has no prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// Calls of large fleets each time that the trigger occurs, by fleet size: for one join of all
    /// nodes, for one period, or for the phase `not-ready` with five nodes NotReady. For a captured
    /// ledger, calls of large fleets in the time of the whole ledger. Empty if the report has no
    /// prices.
    pub each_time: BTreeMap<u32, u64>,
    /// Calls per hour of large fleets, by fleet size; empty for triggers whose frequency is
    /// unknown, such as a start, and if the report has no prices.
    pub per_hour: BTreeMap<u32, u64>,
    /// Advice for the author of the provider; empty for needed calls.
    pub remedy: &'static str,
    /// Sequence number of the first of these calls in the ledger of the largest fleet that has such
    /// calls.
    pub first: u64,
}

/// Records of a ledger and the size of its fleet.
#[derive(Debug)]
pub struct Part<'a> {
    /// Number of nodes; `None` if it is unknown.
    pub nodes: Option<u32>,
    /// Records of the ledger.
    pub records: &'a [Record],
}

/// Durations from which the report computes calls per hour.
pub(super) struct TimeBase {
    pub(super) status_period: u32,
    /// Duration of a captured ledger, in seconds; `None` for the ledgers of fleets that the driver
    /// played in phases.
    pub(super) seconds: Option<f64>,
}

impl TimeBase {
    /// Returns the factor from counted calls to calls per hour; `None` for triggers that do not
    /// recur by themselves, or whose frequency the ledgers do not show.
    fn per_hour(&self, trigger: Trigger) -> Option<f64> {
        let again = matches!(
            trigger,
            Trigger::StatusPeriod | Trigger::Change | Trigger::NotReady | Trigger::Unknown
        );
        match (self.seconds, trigger) {
            (Some(seconds), _) if again && seconds > 0.0 => Some(3600.0 / seconds),
            (None, Trigger::StatusPeriod) => Some(3600.0 / f64::from(self.status_period)),
            (None, Trigger::NotReady) => Some(3600.0 / f64::from(super::life::WINDOW)),
            _ => None,
        }
    }
}

impl CallReport {
    /// Returns the report about a provider that the driver played with fleets of one or more sizes.
    /// The ledger of each fleet has the phases of the scenario [`life`](super::life()).
    pub fn of_phases(name: &str, status_period: u32, parts: &[Part<'_>]) -> Self {
        Self::new(name, parts, &TimeBase { status_period, seconds: None })
    }

    /// Returns the report about a captured ledger, whose fleet has this number of nodes; `None`
    /// means that the number is unknown.
    pub fn of_ledger(name: &str, nodes: Option<u32>, records: &[Record]) -> Self {
        let seconds = lasted(records);
        Self::new(
            name,
            &[Part { nodes, records }],
            &TimeBase { status_period: 300, seconds: Some(seconds) },
        )
    }

    fn new(name: &str, parts: &[Part<'_>], pace: &TimeBase) -> Self {
        let mut items: BTreeMap<Key, Item> = BTreeMap::new();
        let mut calls: BTreeMap<&'static str, u64> = BTreeMap::new();
        for part in parts {
            let n = part.nodes.unwrap_or(0);
            let judged = marks(part.records);
            let records = part.records.iter().filter(|it| it.kind == Kind::Call);
            for (record, mark) in records.zip(&judged) {
                if !is_counted(record, pace) {
                    continue;
                }
                *calls.entry(mark.need.as_str()).or_default() += 1;
                // Leaves out calls that wait for changes, because their number grows with time and
                // not with work.
                if record.class == Some(Class::Longpoll) {
                    continue;
                }
                let server = server(record.face);
                let remedy = remedy(mark.need, record);
                let key = (mark.need, mark.trigger, server, record.op.clone(), remedy);
                let item = items.entry(key).or_insert_with(|| Item::new(record, mark));
                if item.calls.keys().next_back() != Some(&n) {
                    item.first = record.seq;
                }
                *item.calls.entry(n).or_default() += 1;
                item.per_object += u64::from(mark.per_object);
            }
        }
        let nodes: Vec<u32> = parts.iter().filter_map(|it| it.nodes).collect();
        let price = match nodes.as_slice() {
            [] => Projection::Unknown,
            [_] => Projection::Proportional,
            _ => Projection::Fitted,
        };
        let mut items: Vec<Item> = items.into_values().collect();
        for item in &mut items {
            item.price(price, &nodes, pace);
        }
        items.sort_by(|a, b| {
            b.weight().total_cmp(&a.weight()).then_with(|| a.operation.cmp(&b.operation))
        });
        Self {
            name: name.to_owned(),
            price,
            nodes,
            status_period: pace.status_period,
            calls,
            items,
        }
    }

    /// Returns the items for calls that can be saved.
    pub fn to_do(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|it| it.need != Need::Needed)
    }

    /// Returns the items for needed calls.
    pub fn needed(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|it| it.need == Need::Needed)
    }
}

/// Key under which calls are added up: need, trigger, server, operation and advice.
type Key = (Need, Trigger, &'static str, String, &'static str);

/// True if the call counts. Of a captured ledger every call counts, of a fleet that the driver
/// played only the calls within a phase.
fn is_counted(record: &Record, pace: &TimeBase) -> bool {
    pace.seconds.is_some() || record.phase.as_deref().is_some_and(|it| !it.is_empty())
}

/// Returns the seconds from the first call to the last, summed over the ledgers of one file.
fn lasted(records: &[Record]) -> f64 {
    let mut seconds = 0.0;
    let calls: Vec<&Record> = records.iter().filter(|it| it.kind == Kind::Call).collect();
    for pair in calls.windows(2) {
        if pair[1].seq > pair[0].seq {
            seconds += pair[1].t.since(pair[0].t).as_secs_f64();
        }
    }
    seconds
}

fn server(face: Option<Face>) -> &'static str {
    match face {
        Some(Face::Soap | Face::Vapi) => "vCenter",
        Some(Face::Supervisor) => "Supervisor",
        Some(Face::Cluster) => "cluster",
        Some(Face::Autoscaler) => "autoscaler",
        None => "",
    }
}

impl Item {
    fn new(record: &Record, mark: &Mark) -> Self {
        Self {
            need: mark.need,
            trigger: mark.trigger,
            server: server(record.face),
            operation: record.op.clone(),
            calls: BTreeMap::new(),
            per_object: 0,
            fit: None,
            each_time: BTreeMap::new(),
            per_hour: BTreeMap::new(),
            remedy: remedy(mark.need, record),
            first: record.seq,
        }
    }

    fn price(&mut self, how: Projection, nodes: &[u32], pace: &TimeBase) {
        for n in nodes {
            self.calls.entry(*n).or_default();
        }
        let fit = match how {
            Projection::Fitted => fitted(&self.calls),
            // The number of NotReady nodes does not grow with the fleet.
            Projection::Proportional if self.trigger == Trigger::NotReady => level(&self.calls),
            Projection::Proportional => proportional(&self.calls),
            Projection::Unknown => return,
        };
        self.fit = Some(fit);
        for n in FLEETS {
            let calls = (fit.a + fit.b * f64::from(n)).max(0.0);
            self.each_time.insert(n, whole(calls));
            if let Some(times) = pace.per_hour(self.trigger) {
                self.per_hour.insert(n, whole(calls * times));
            }
        }
    }

    /// Sort key of an item: calls of the largest fleet that has a price, per hour if such a price
    /// exists; without prices, all calls of the item.
    fn weight(&self) -> f64 {
        let largest = |of: &BTreeMap<u32, u64>| of.values().next_back().copied();
        let calls = largest(&self.per_hour).or_else(|| largest(&self.each_time));
        #[expect(clippy::cast_precision_loss, reason = "counts of calls are far below 2^53")]
        let weight = calls.unwrap_or_else(|| self.calls.values().sum()) as f64;
        weight
    }
}

/// Fits a line. If the counts differ by at most one call plus 15 % of the smallest count, fits a
/// constant, because one monitor tick more or less causes this difference on a real clock.
fn fitted(calls: &BTreeMap<u32, u64>) -> Fit {
    let (Some(least), Some(most)) = (calls.values().min(), calls.values().max()) else {
        return Fit { a: 0.0, b: 0.0, r2: 1.0 };
    };
    let fit = crate::cost::fit(calls);
    if most - least > least * 3 / 20 + 1 {
        return fit;
    }
    level(calls)
}

/// Returns the mean, as a fit that does not depend on the fleet size.
#[expect(clippy::cast_precision_loss, reason = "counts of calls are far below 2^53")]
fn level(calls: &BTreeMap<u32, u64>) -> Fit {
    let a = calls.values().sum::<u64>() as f64 / calls.len().max(1) as f64;
    Fit { a, b: 0.0, r2: 1.0 }
}

/// Returns a line through zero if the largest fleet has at least one call per two nodes, else a
/// constant.
fn proportional(calls: &BTreeMap<u32, u64>) -> Fit {
    let (n, calls) = calls.iter().next_back().map_or((1, 0), |(n, calls)| (*n, *calls));
    #[expect(clippy::cast_precision_loss, reason = "counts of calls are far below 2^53")]
    let calls_f = calls as f64;
    match n > 0 && 2 * calls >= u64::from(n) {
        true => Fit { a: 0.0, b: calls_f / f64::from(n), r2: 1.0 },
        false => Fit { a: calls_f, b: 0.0, r2: 1.0 },
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count, not negative"
)]
fn whole(calls: f64) -> u64 {
    calls.max(0.0).round() as u64
}

/// Returns the advice on how to save calls of this need that resemble `call`; empty for needed
/// calls.
fn remedy(need: Need, call: &Record) -> &'static str {
    let is_tag = call.op.starts_with("tagging.");
    match (need, call.face) {
        (Need::Needed, _) => "",
        (Need::Relogin, _) => "keep the session; log in again when a call says NotAuthenticated",
        (Need::Reread, Some(Face::Soap))
            if call.target.moref.as_deref() == Some("SessionManager") =>
        {
            "do not check the session; the next call fails if it has ended"
        }
        (Need::Reread, Some(Face::Soap)) => {
            "keep the answer and wait for changes: one filter, WaitForUpdatesEx"
        }
        (Need::Reread, Some(Face::Vapi)) => "keep the answer for some minutes; tags rarely change",
        (Need::Reread, _) => "keep the answer and watch, or answer from the informer",
        (Need::PerObject, _) if is_tag => "call list-attached-tags-on-objects once for all objects",
        (Need::PerObject, Some(Face::Soap | Face::Vapi)) => {
            "call RetrievePropertiesEx once, over a view of all machines"
        }
        (Need::PerObject, _) => "use one list or one watch of all objects",
    }
}
