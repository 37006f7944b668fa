//! The cases that upstream tests in this mode, each by name and in each way of asking (`cpi-supervisor` 10.1, Instances and
//! Zones; adapters and addresses stand beside what they test). The list is `docs/supervisor-cases.md`.

mod adapters;
mod instances;
mod zones;

use std::sync::Arc;

use super::*;
use crate::instances::SupervisorV1;

/// One way of asking about the machines of a fake.
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

/// Every way, each with machines of its own. `n0000` to `n0002` are there, and their nodes are known.
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

    /// As the controller asks: whether it exists first.
    async fn shutdown(&self, node: &NodeIdentity) -> Option<bool> {
        match self.exists(node).await {
            Lookup::Found(()) => match self.instances.shutdown(node) {
                Lookup::Found(is_off) => Some(is_off),
                Lookup::Gone { .. } | Lookup::Unknown(_) => None,
            },
            Lookup::Gone { .. } | Lookup::Unknown(_) => None,
        }
    }

    /// From now on every request fails, and the view of before is too old to answer from.
    async fn fail(&self) {
        self.fake.refuse(Refusals { get: Some(500), list: Some(500), watch: Some(500) });
        self.fake.cut();
        seconds(10).await;
    }
}
