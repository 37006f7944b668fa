//! Checks the metrics of the view of a vCenter's machines: the numbers of builds of the view, of
//! deliveries to it, and of updates in the deliveries.

use std::collections::BTreeSet;

use sim::ledger::Record;

use super::ScrapedReplica;

const BUILDS: &str = "vsphere_view_builds_total";
const DELIVERIES: &str = "vsphere_view_deliveries_total";
const UPDATES: &str = "vsphere_view_updates_total";

impl ScrapedReplica<'_> {
    pub(super) fn view(&self) -> Vec<String> {
        let mut said = Vec::new();
        let is_wait = |call: &&&Record| call.is_vcenter_call() && call.op == "WaitForUpdatesEx";
        let waits: Vec<&&Record> = self.calls.iter().filter(is_wait).collect();
        let vcenters: BTreeSet<&str> = waits.iter().map(|call| call.server.as_str()).collect();
        for vcenter in vcenters {
            let of = |metric| self.sum(metric, &[("vcenter", vcenter)]);
            let here = waits.iter().filter(|call| call.server == vcenter);
            // For each view that it builds, the provider begins to wait with an empty version. It
            // does so again if the answer is lost.
            let is_first = |call: &&&&Record| call.req.detail == "from the beginning";
            let firsts = here.clone().filter(is_first).count() as f64;
            let builds = of(BUILDS);
            if builds < 1.0 || builds > firsts {
                said.push(format!("{BUILDS} of {vcenter} is {builds}; expected 1 to {firsts}"));
            }
            let (mut heard, mut made, mut machines) = (0.0, 0.0, 0.0);
            for call in here {
                let Some(ended) = &call.ended else { continue };
                let objects = f64::from(u32::try_from(ended.objects).unwrap_or(u32::MAX));
                if objects == 0.0 {
                    continue;
                }
                made += 1.0;
                machines += objects;
                if self.is_heard(call) {
                    heard += 1.0;
                }
            }
            let (deliveries, updates) = (of(DELIVERIES), of(UPDATES));
            if deliveries < heard || (self.is_calm && deliveries > made) {
                said.push(format!("{DELIVERIES} of {vcenter} is {deliveries}, but the replica received {heard} to {made} answers with changes"));
            }
            if self.is_calm && heard == made && updates != machines {
                said.push(format!(
                    "{UPDATES} of {vcenter} is {updates}, but the answers had {machines} changes"
                ));
            }
        }
        said
    }
}
