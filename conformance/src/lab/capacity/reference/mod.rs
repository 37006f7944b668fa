//! A reconciler and a reader that keep every promise, and with a flaw break known ones. They show
//! that the checks pass a good subject, and that each of them can fail.
//!
//! The reconciler looks at all objects again and again, so that it shares neither code nor structure
//! with ours. It also serves three example kinds of other platforms.

mod examples;
mod flaw;
mod groups;
mod reader;
mod templates;
mod vsphere;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::api::Api;
use super::management::Management;
use super::subject::{Configuration, NotStarted, Reconciler, Running};

pub use examples::Example;
pub use flaw::{Flaw, ReaderFlaw};
pub use reader::FaultyReader;

/// Time between two looks in virtual time.
const PERIOD: Duration = Duration::from_secs(5);
/// Time between two looks of the flaw [`Flaw::HotLoop`].
const HOT: Duration = Duration::from_millis(100);

/// The reference reconciler.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Kind that it serves; `None` for the kinds of vSphere.
    pub example: Option<Example>,
    /// Defect; `None` for none.
    pub flaw: Option<Flaw>,
}

/// One process of the reference, so to speak: it knows nothing of an earlier one.
struct Worker {
    api: Api,
    example: Option<Example>,
    flaw: Option<Flaw>,
    configuration: Configuration,
    /// Names that flaws of memory need.
    seen: Seen,
}

/// Names of templates, as `namespace/name`.
#[derive(Default)]
struct Seen {
    /// Templates of the first look; `None` before it.
    early: Option<BTreeSet<String>>,
    waiting: BTreeSet<String>,
    paused: BTreeSet<String>,
    refused: BTreeSet<String>,
    written: BTreeSet<String>,
    informed: BTreeSet<String>,
    is_hot: bool,
}

struct RunningReference {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Reference {
    /// Works until the stop, with a look each `period`.
    ///
    /// Cancel safe: each write stands alone.
    pub async fn work(
        self,
        api: Api,
        configuration: Configuration,
        period: Duration,
        stop: CancellationToken,
    ) {
        let Self { example, flaw } = self;
        let mut worker = Worker { api, example, flaw, configuration, seen: Seen::default() };
        loop {
            let look = async {
                worker.seen.is_hot = false;
                worker.look().await;
                let pause = if worker.seen.is_hot { HOT } else { period };
                tokio::time::sleep(pause).await;
            };
            if stop.run_until_cancelled(look).await.is_none() {
                return;
            }
        }
    }
}

impl Worker {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Looks at all objects once. What fails is tried again at the next look.
    async fn look(&mut self) {
        self.look_at_templates().await;
        if self.example.is_none() {
            self.look_at_groups().await;
        }
    }
}

impl Reconciler for Reference {
    fn start<'a>(
        &'a self,
        management: &'a Management,
        configuration: &'a Configuration,
    ) -> BoxFuture<'a, Result<Box<dyn Running>, NotStarted>> {
        let (reference, configuration) = (*self, configuration.clone());
        Box::pin(async move {
            let client = management.reconciler_client().map_err(NotStarted::Failed)?;
            let stop = CancellationToken::new();
            let work = reference.work(Api::new(client), configuration, PERIOD, stop.clone());
            let task = AbortOnDropHandle::new(tokio::spawn(work));
            Ok(Box::new(RunningReference { stop, task }) as Box<dyn Running>)
        })
    }
}

impl Running for RunningReference {
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        Box::pin(self.task.map(drop))
    }

    fn end(&mut self) -> Option<String> {
        (&mut self.task).now_or_never().map(|how| format!("it ended: {how:?}"))
    }
}
