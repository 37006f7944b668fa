//! A watcher of Nodes with its cache, which a test polls by hand and checks after every event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{self, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use sim::Sim;
use sim::world::Retain;
use sim::world::objects::{GroupResource, Op, Store as Objects};

/// Maximum wait for an event; longer than the time after which the client gives up a silent watch,
/// with room for the next watch.
pub(super) const QUIET: Duration = Duration::from_secs(700);

/// Page size of lists; small, so that few objects fill several pages.
const PAGE: u32 = 3;

/// Way in which a watcher reads the objects at its beginning: by a list, or by a watch that first
/// streams them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    ListWatch,
    StreamingList,
}

impl Strategy {
    pub(super) const ALL: [Self; 2] = [Self::ListWatch, Self::StreamingList];
}

/// The resourceVersion of each Node, by name.
type Versions = BTreeMap<String, String>;

/// A watcher with its cache.
pub(super) struct Cache<'a> {
    sim: &'a Sim,
    store: Store<Node>,
    events: BoxStream<'static, watcher::Result<Event<Node>>>,
    /// Index in the history of the state that the cache showed last; it must not decrease.
    at: usize,
    /// Errors that the watcher returned, oldest first.
    pub(super) errors: Vec<String>,
    /// Number of times that the watcher began with a new list.
    pub(super) n_begun: usize,
}

impl<'a> Cache<'a> {
    /// Returns a watcher over the in-process transport; it sends nothing before it is polled.
    pub(super) fn new(sim: &'a Sim, strategy: Strategy) -> Self {
        Self::over(sim, strategy, Client::new(sim.cluster().service("watcher"), "default"))
    }

    /// Returns a watcher over any client.
    pub(super) fn over(sim: &'a Sim, strategy: Strategy, client: Client) -> Self {
        let config = watch::Config::default().page_size(PAGE);
        let config = match strategy {
            Strategy::ListWatch => config,
            Strategy::StreamingList => config.streaming_lists(),
        };
        let (store, writer) = reflector::store();
        let events = watch(Api::<Node>::all(client), config).backoff(EverySecond).reflect(writer);
        Self { sim, store, events: events.boxed(), at: 0, errors: Vec::new(), n_begun: 0 }
    }

    /// Processes the next event; returns `false` if none comes within `patience`.
    pub(super) async fn step(&mut self, patience: Duration) -> bool {
        match tokio::time::timeout(patience, self.events.next()).await {
            Err(_) => return false,
            Ok(None) => panic!("a watcher never ends"),
            Ok(Some(Err(error))) => self.errors.push(chain(&error)),
            Ok(Some(Ok(event))) => {
                self.n_begun += usize::from(matches!(event, Event::Init));
                if matches!(event, Event::Apply(_) | Event::Delete(_) | Event::InitDone) {
                    self.check();
                }
            }
        }
        true
    }

    /// Processes events until none comes within [`QUIET`].
    pub(super) async fn settle(&mut self) {
        while self.step(QUIET).await {}
    }

    #[expect(clippy::disallowed_methods, reason = "sorted at once")]
    fn shown(&self) -> BTreeMap<String, Arc<Node>> {
        self.store.state().into_iter().map(|node| (node.name_any(), node)).collect()
    }

    /// Checks that the cache shows a state that existed, not older than the one that it showed
    /// last.
    fn check(&mut self) {
        let history = history(self.sim);
        let shown: Versions = self
            .shown()
            .into_iter()
            .map(|(name, node)| (name, node.resource_version().unwrap_or_default()))
            .collect();
        let later = history.iter().skip(self.at).position(|state| *state == shown);
        match later {
            Some(later) => self.at += later,
            None => panic!(
                "the cache shows a state that did not exist after state {}: {shown:#?}\nhistory: {history:#?}",
                self.at
            ),
        }
    }

    /// Checks that the cache equals the cluster in every field of the type.
    pub(super) fn assert_complete(&self) {
        let real: BTreeMap<String, Arc<Node>> = self.sim.world().read(|world| {
            let resource = GroupResource::core("nodes");
            let nodes = world.cluster.all(&resource);
            let node = |it: &Arc<Value>| serde_json::from_value(it.as_ref().clone()).unwrap();
            nodes.map(node).map(|node: Node| (node.name_any(), Arc::new(node))).collect()
        });
        assert!(!real.is_empty(), "the cluster has no Node, so an equal cache proves nothing");
        assert_eq!(self.shown(), real, "the cache is not complete; its errors: {:#?}", self.errors);
    }
}

/// Runs `story` with a sim in virtual time, whose world has no machines and keeps its log.
pub(super) fn play(story: impl AsyncFnOnce(&Sim)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let builder = Sim::builder().retain(Retain::Everything);
    runtime.unwrap().block_on(sim::testing::run(builder, story));
}

/// Returns every state of the Nodes, oldest first.
fn history(sim: &Sim) -> Vec<Versions> {
    let nodes = GroupResource::core("nodes");
    let version = |object: &Value| {
        let text = |field| object["metadata"][field].as_str().unwrap().to_owned();
        (text("name"), text("resourceVersion"))
    };
    sim.world().read(|world| {
        let first: &Objects = &world.log().base().expect("the log is kept").cluster;
        let mut state: Versions = first.all(&nodes).map(|object| version(object)).collect();
        let mut all = vec![state.clone()];
        for (_, event) in world.log().entries() {
            let sim::world::Event::Cluster(event) = event else { continue };
            if event.key.resource != nodes {
                continue;
            }
            let (name, revision) = version(&event.object);
            match event.op {
                Op::Deleted => state.remove(&name),
                Op::Added | Op::Modified => state.insert(name, revision),
            };
            all.push(state.clone());
        }
        all
    })
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A fixed pause, because kube's own pauses are random without a seed.
struct EverySecond;

impl Iterator for EverySecond {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

impl Backoff for EverySecond {
    fn reset(&mut self) {}
}
