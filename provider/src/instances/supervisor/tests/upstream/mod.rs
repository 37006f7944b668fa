//! The cases that upstream tests in Supervisor mode, each under a name of its own. `instances` and
//! `zones` run each case in the modes `auto`, `poll` and `v1` (`cpi-supervisor` 10.1, Instances and
//! Zones). Other cases of adapters and addresses are beside the code that they test.
//! `docs/supervisor-cases.md` lists all of them.

mod adapters;
mod instances;
mod zones;

use std::sync::Arc;

use super::*;
use crate::instances::SupervisorV1;

/// A backend in one mode, with its fake Supervisor.
struct Way {
    mode: InstancesMode,
    fake: Fake,
    instances: Arc<dyn Instances>,
    stop: CancellationToken,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts a backend in each of the modes `auto`, `poll` and `v1`, each with its own fake
/// Supervisor. Machines `n0000` to `n0002` exist, unless `prepare` changes that, and the backends
/// track their nodes.
async fn ways(prepare: impl Fn(&Fake)) -> Vec<Way> {
    let mut ways = Vec::new();
    for mode in [InstancesMode::Auto, InstancesMode::Poll, InstancesMode::V1] {
        let fake = Fake::with(3);
        prepare(&fake);
        let tuning = Tuning { mode, seed: 7, ..Tuning::default() };
        let stop = CancellationToken::new();
        let tasks = Tasks::new(&stop, &CancellationToken::new());
        let instances: Arc<dyn Instances> = if mode == InstancesMode::V1 {
            let made = SupervisorV1::new(
                fake.client(),
                "dev",
                tuning,
                Telemetry::default().supervisor_requests(),
            );
            made.spawn(&tasks);
            Arc::new(made)
        } else {
            let active = Active::default();
            let telemetry = Telemetry::default();
            let made = SupervisorInstances::new(fake.client(), "dev", tuning, &telemetry, active);
            made.spawn(&tasks);
            Arc::new(made)
        };
        for i in 0..3 {
            instances.observe(&nth(i));
        }
        moment().await;
        ways.push(Way { mode, fake, instances, stop });
    }
    ways
}

impl Way {
    async fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        super::metadata(&*self.instances, node, zone).await
    }

    async fn exists(&self, node: &NodeIdentity) -> Lookup<()> {
        self.instances.exists(node, Instant::now()).await
    }

    /// Asks whether the machine is off as the controller does: after the question about existence.
    /// `None` if the machine is not found, or if its power state is unknown.
    async fn shutdown(&self, node: &NodeIdentity) -> Option<bool> {
        match self.exists(node).await {
            Lookup::Found(()) => match self.instances.shutdown(node) {
                Lookup::Found(is_off) => Some(is_off),
                Lookup::Gone { .. } | Lookup::Unknown(_) => None,
            },
            Lookup::Gone { .. } | Lookup::Unknown(_) => None,
        }
    }

    /// Makes every request fail, and waits 10 s, until the view is too old for questions about
    /// existence.
    async fn fail(&self) {
        self.fake.refuse(Refusals { get: Some(500), list: Some(500), watch: Some(500) });
        self.fake.cut();
        seconds(10).await;
    }
}
