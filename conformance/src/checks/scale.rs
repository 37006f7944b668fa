//! ROB-006: a large inventory and a small cluster.

use std::time::Duration;

use sim::ledger::Record;
use sim::world::{Command, ControlPlane};

use super::build::{SETTLED, T_INIT, create_joining_machine, s, world_with};
use super::canary::Canary;
use super::queries::names;
use super::{Case, Check};
use crate::judge::verdict::Verdict;
use crate::lab::Run;
use crate::scenario::{Act, Backend};

/// Number of machines in the world.
const MACHINES: u32 = 5000;
/// Number of these machines that run kubelets from the start.
const NODES: u32 = 10;
/// Maximum number of objects in one answer: a page of a thousand machines and the objects above
/// them in the inventory. The limit exists because a provider keeps a whole answer in memory.
const OBJECTS: u64 = 1200;
/// Maximum number of bytes in one answer: twice the size of a page of 500 VirtualMachines.
const BYTES: u64 = 4 << 20;

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![Check::new("ROB-006", [large_inventory(backend)])]
}

/// Creates a case in which nodes join in an inventory of five thousand machines, sessions and
/// watches end, the provider restarts, and the machine of a node is deleted. No answer to the
/// provider may be larger than [`OBJECTS`] and [`BYTES`] permit.
fn large_inventory(backend: Backend) -> Case {
    const LOST: Duration = s(90);
    let scenario = world_with(NODES, MACHINES, s(300))
        .at(s(0), Command::SetHeartbeats { every: None })
        .at(SETTLED, create_joining_machine("newcomer", None))
        .at(LOST, backend.disconnect())
        .at(LOST, Command::CompactCluster { plane: ControlPlane::Supervisor, keep: 0 })
        .at(s(120), Act::Crash(0))
        .at(s(121), Act::Start(0));
    Case::new(scenario, move |run| {
        let mut all = names(NODES - 1);
        all.push("newcomer".to_owned());
        run.initializes(&all, s(0), SETTLED + s(30) + T_INIT).and(|| is_read_in_pages(run))
    })
    .canary(Canary::Gone(NODES), s(150))
}

fn is_read_in_pages(run: &Run) -> Verdict {
    let size = |call: &Record| {
        let ended = call.ended.as_ref();
        ended.map_or((0, 0), |ended| (ended.objects, ended.bytes))
    };
    // Skips watches, whose answers are streams of single events.
    let answers = || run.machine_calls().filter(|call| !call.op.starts_with("watch "));
    let large = answers().find(|call| size(call).0 > OBJECTS || size(call).1 > BYTES);
    Verdict::pass_if(large.is_none(), || {
        let (objects, bytes) = large.map(size).unwrap_or_default();
        let call = large.map(ToString::to_string).unwrap_or_default();
        format!(
            "an answer has {objects} objects and {bytes} bytes; at most {OBJECTS} and {BYTES} are allowed: {call}"
        )
    })
}
