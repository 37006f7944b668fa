//! Measures the delays and the calls of a provider while nothing fails.
//!
//! `conformance run --provider` measures once before the checks, unless `--no-calibration` is
//! given, and `conformance sweep --provider` once before the lives. The measurement ends the run
//! with an error if the provider makes no call, because then every check would fail. With a slow
//! provider each case lasts longer, but the bounds of the case stay the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use serde::Serialize;
use sim::ledger::{Kind, Record};
use sim::world::objects::Key;
use sim::world::{Command, Named, Time, Topology};

use crate::foreign::host::{Host, Setup};
use crate::judge::facts;
use crate::lab::{Lab, Provider as _, Stage};
use crate::scenario::periods::{GRACE, Periods};
use crate::scenario::{Act, Backend, ProviderSetup, Scenario};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// World time at which all nodes have joined and the measurement begins.
const SETTLED: Duration = s(60);
/// New address of a machine, which no machine has at first.
const ADDRESS: &str = "10.66.6.7";
/// Maximum real time that the measurement waits for the new address on a Node and for the deletion
/// of a Node: the default address sync period of 300 s, which a provider without the knob keeps,
/// and a margin. At a low pace the measurement waits longer, until world time has advanced by
/// [`GRACE`] + 600 s.
const PATIENCE: Duration = s(330);

/// Measured delays, in world time.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// Time from the change of a machine's address until its Node shows the new address; at most
    /// one address sync period if the provider obeys the knob `T.status`. `None` if the Node did
    /// not show it before the measurement ended.
    #[serde(with = "seconds")]
    pub address: Option<Duration>,
    /// Time from NotReady until the provider has deleted the Node of a destroyed machine; about two
    /// monitor periods if the provider obeys the knob `T.monitor`. Zero if the Node was gone before
    /// it was seen NotReady; `None` if the Node still existed when the measurement ended.
    #[serde(with = "seconds")]
    pub deletion: Option<Duration>,
    /// Number of calls during the measurement, by operation.
    pub calls: BTreeMap<String, usize>,
}

mod seconds {
    use std::time::Duration;

    use serde::Serializer;

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(in crate::foreign) fn serialize<S: Serializer>(
        it: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match it {
            Some(it) => to.serialize_f64((it.as_secs_f64() * 10.0).round() / 10.0),
            None => to.serialize_none(),
        }
    }
}

/// Returns the error text for a provider that made no call, with the notes of the ledger and the
/// end of the provider's log.
pub(in crate::foreign) fn silent(name: &str, records: &[Record], log: &[String]) -> String {
    let notes = records.iter().filter(|it| it.kind == Kind::Note).map(|it| it.op.as_str());
    format!(
        "{name} made no call at all; events of the run: {}; the end of its log, which may have the reason:\n{}",
        notes.collect::<Vec<_>>().join("; "),
        log.join("\n")
    )
}

/// Times of the provider's reactions to the new address of the first machine and to the end of the
/// destroyed machine; `None` for a reaction that the measurement has not seen.
#[derive(Default)]
struct Reactions {
    /// Time at which the Node of the first machine shows the new address.
    shown: Option<Time>,
    /// Time at which the Node of the destroyed machine is NotReady.
    silent: Option<Time>,
    /// Time at which the Node of the destroyed machine is gone.
    gone: Option<Time>,
}

impl Reactions {
    /// Lets world time pass until the first machine's Node shows the new address and the destroyed
    /// machine's Node is gone, but at most until `last`. Returns the times.
    async fn until(lab: &mut Lab, last: Time) -> Self {
        let Self { mut shown, mut silent, mut gone } = Self::default();
        while (shown.is_none() || gone.is_none()) && lab.world().now() < last {
            lab.advance(s(1)).await;
            let now = lab.world().now();
            lab.world().read(|world| {
                let node = |n: u32| {
                    let node = world.cluster.get(&Key::node(format!("node-{n:04}")))?;
                    Some(facts(node))
                };
                if node(1).is_some_and(|it| it.ips().any(|ip| ip == ADDRESS)) {
                    shown.get_or_insert(now);
                }
                match node(4) {
                    None => drop(gone.get_or_insert(now)),
                    Some(node) if !node.is_ready() => drop(silent.get_or_insert(now)),
                    Some(_) => {}
                }
            });
        }
        Self { shown, silent, gone }
    }
}

impl Calibration {
    /// Measures the provider with a world of four machines, of which one gets a new address and one
    /// is destroyed.
    ///
    /// # Errors
    /// Fails if the provider makes no call; the error contains the end of its log. Also fails if
    /// the environment of the provider cannot be made, or if a real API server differed from the
    /// world.
    pub(in crate::foreign) async fn measure(
        setup: &Arc<Setup>,
        stage: &Stage,
        pace: u32,
        epoch: jiff::Timestamp,
    ) -> anyhow::Result<Self> {
        let scenario = Scenario::new("calibration", Topology::zones(3).machines(4), SETTLED);
        let mut lab = Lab::beginning_at(&scenario, stage, epoch);
        let host = Host::new(Arc::clone(setup), lab.sim(), "calibration", pace, 1).await?;
        let (logs, backed) = (host.logs().clone(), host.backed());
        lab.use_host(host);
        lab.play_to_the_end().await;
        let records = lab.ledger().records();
        if records.iter().all(|record| record.kind != Kind::Call) {
            bail!(silent(&setup.manifest.name, &records, &logs.tail(12)));
        }
        let from = lab.ledger().next_seq();
        let changed = lab.world().now();
        let machine = |n: u32| Named::from(format!("node-{n:04}"));
        let addresses = vec![vec![ADDRESS.parse().expect("an address")]];
        for command in [
            Command::SetAddresses { machine: machine(1), addresses },
            Command::DeleteMachine(machine(4)),
        ] {
            lab.act(&Act::World(command)).await;
        }
        let last = changed + (PATIENCE * pace).max(GRACE + s(600));
        let Reactions { shown, silent, gone } = Reactions::until(&mut lab, last).await;
        let mut calls = BTreeMap::new();
        for record in lab.ledger().since(from).iter().filter(|it| it.kind == Kind::Call) {
            *calls.entry(record.op.clone()).or_default() += 1;
        }
        lab.finish().await;
        if let Some(backed) = backed {
            backed.end().await?;
        }
        let since = |from: Option<Time>, to: Option<Time>| Some(to?.since(from?));
        Ok(Self {
            address: since(Some(changed), shown),
            deletion: since(silent.or(gone), gone),
            calls,
        })
    }

    /// Returns the world time by which each case is extended, so that a slow provider can be
    /// distinguished from a stuck one; zero if no delay is long, or if a long one could not be
    /// measured.
    pub(in crate::foreign) fn extra(&self) -> Duration {
        let periods = Periods::from_setup(&ProviderSetup::default());
        let beyond = |measured: Option<Duration>, bound: Duration| match measured {
            Some(measured) if measured > bound => 3 * measured - bound,
            _ => Duration::ZERO,
        };
        beyond(self.address, periods.status + periods.init())
            .max(beyond(self.deletion, periods.life()))
    }

    /// Returns the measured delays as one line for people.
    pub(in crate::foreign) fn text(&self, mode: Backend) -> String {
        let seen = |it: Option<Duration>| match it {
            Some(it) => format!("{:.0} s", it.as_secs_f64()),
            None => "never".to_owned(),
        };
        let what = match mode {
            Backend::VCenter => "vCenter",
            Backend::Supervisor => "Supervisor",
        };
        format!(
            "calibrated ({what}): delay until a Node shows a new address: {}; delay from NotReady until the Node of a destroyed machine is deleted: {}",
            seen(self.address),
            seen(self.deletion)
        )
    }
}
