"""Scenarios R1 to R10 of the real Cluster Autoscaler with our server, over any cluster: for autoscaler.py and scaling_sim.py.

Each scenario begins and ends without machines. It is judged by the status, the events and the log of the autoscaler, by Nodes and
VirtualMachines, and by the calls in the sim's ledger.
"""
import collections
import re
import signal
import time

from lane import NODES, expect

GROUPS = """groups:
- name: small
  max: {small}
  machine: &machine {{className: best-effort-small, imageName: vmi-0123456789abcdef0, storageClass: gold, zone: zone-a,
                     bootstrap: {{secretName: bootstrap}}}}
- name: large
  max: {large}
  machine: {{className: best-effort-large, imageName: vmi-0123456789abcdef0, storageClass: gold, zone: zone-b,
            bootstrap: {{secretName: bootstrap}}}}
- name: broken
  max: 2
  machine: {{className: {missing}, imageName: vmi-0123456789abcdef0, storageClass: gold, bootstrap: {{secretName: bootstrap}}}}
"""
HOW_TO_GET = """skipped: CA_BINARY is not set; how to get it: check out the tag cluster-autoscaler-1.36.1 of github.com/kubernetes/autoscaler, \
and run `go build -tags externalgrpc .` in its folder cluster-autoscaler (two minutes)"""
FOREIGN = ["foreign-1", "foreign-2"]
ZONES = "/apis/topology.tanzu.vmware.com/v1alpha1/availabilityzones"


def groups(small=3, large=2, missing="missing"):
    """Returns the file of the groups, with the maxima of two of them, and the class of the group that has no template."""
    return GROUPS.format(small=small, large=large, missing=missing)


def prepare(lane):
    """Adds the class of the large machines, and Nodes of another platform."""
    path = f"/apis/vmoperator.vmware.com/v1alpha6/namespaces/{lane.world.namespace}/virtualmachineclasses"
    lane.world.supervisor.must("POST", path, {
        "apiVersion": "vmoperator.vmware.com/v1alpha6", "kind": "VirtualMachineClass", "metadata": {"name": "best-effort-large"},
        "spec": {"hardware": {"cpus": 4, "memory": "16Gi"}}})
    resources = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    for name in FOREIGN:
        lane.cluster.must("POST", NODES, {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"providerID": f"kind://{name}", "taints": [{"key": "foreign", "effect": "NoSchedule"}]},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}})


def empty(lane):
    """Waits until no machine and no Node of one is left."""
    lane.until("machines or Nodes are left", lambda: not lane.machines() and lane.nodes() == FOREIGN, 120)


def runs(lane, app, n=1):
    """Waits until this number of Pods run, and returns the seconds that it took."""
    return lane.until(lambda: f"{lane.running(app)} of {n} Pods run", lambda: lane.running(app) == n, lane.patience)


def judge_changes(lane, before, n):
    """Checks that since a state of the ledger our server created and deleted this number of machines, and no other program did."""
    changes = lane.changes() - before
    wanted = collections.Counter({("create", "provider"): n, ("delete", "provider"): n})
    expect(changes == wanted, f"the ledger has {dict(changes)} of VirtualMachines, expected {dict(wanted)}")


# ---- the scenarios

def r1(lane):
    """R1: 0 → 1 → 0: a Pod needs a machine, and the machine goes after the Pod."""
    before = lane.changes()
    lane.pods("one", 1)
    created = lane.until("no machine", lambda: len(lane.machines()) == 1)
    took = runs(lane, "one")
    lane.until("the status has no size of 1", lambda: lane.target("small") == 1)
    expect(lane.events("TriggeredScaleUp", "one-"), "no event TriggeredScaleUp")
    lane.pods("one", 0)
    gone = lane.until("the machine stays", lambda: not lane.machines())
    empty(lane)
    lane.until("the status has no size of 0", lambda: lane.target("small") == 0)
    expect(lane.events("ScaleDownEmpty"), "no event ScaleDownEmpty")
    judge_changes(lane, before, 1)
    return f"machine after {created:.1f} s, Pod runs {took:.1f} s later, machine deleted {gone:.1f} s after the Pod"


def r2(lane):
    """R2: a machine cannot be made for lack of resources: the autoscaler backs off and takes the other group."""
    kept = lane.world.supervisor.must("GET", f"{ZONES}/zone-a")
    lane.world.supervisor.must("DELETE", f"{ZONES}/zone-a")
    try:
        lane.pods("two", 1, anywhere=True)
        lane.until("no machine in the first group", lambda: lane.machines("small"))
        error = lane.found("the status has no error of the first group", lambda: re.search(r"errorCode: (\S+)", lane.group("small")), 150)
        expect("status: Backoff" in lane.group("small"), "the first group does not back off:\n" + lane.group("small"))
        other = lane.until("no machine in the other group", lambda: lane.machines("large"))
        lane.until("the failed machine stays", lambda: not lane.machines("small"))
        runs(lane, "two")
    finally:
        kept["metadata"] = {"name": "zone-a"}
        lane.world.supervisor.must("POST", ZONES, kept)
    said = [line for line in lane.autoscaler.log().splitlines() if "Disabling scale-up for node group" in line]
    expect(any("OutOfResource" in line for line in said), f"no back-off by class: {said}")
    lane.pods("two", 0)
    empty(lane)
    return f"back-off with {error.group(1)}; other group chosen {other:.1f} s after it"


def r3(lane):
    """R3: a machine is never made: the autoscaler gives up after its time and deletes the instance."""
    lane.operator(False)
    lane.pods("three", 1)
    lane.until("no machine", lane.machines)
    first = lane.machines()
    took = lane.until("the stuck machine stays", lambda: not set(first) & set(lane.machines()), 120)
    expect(lane.events("ScaleUpTimedOut"), "no event ScaleUpTimedOut")
    lane.operator(True)
    lane.until("the Pod does not run", lambda: lane.running("three") == 1, 120)
    lane.pods("three", 0)
    empty(lane)
    return f"deleted {took:.0f} s after its creation; the next machine came"


def r4(lane):
    """R4: the server is down for 15 s: the autoscaler goes on without a restart."""
    before = lane.changes()
    lane.server.end(signal.SIGKILL)
    lane.pods("four", 1)
    time.sleep(15)
    expect(lane.autoscaler.process.poll() is None, "the autoscaler ended")
    expect(not lane.machines(), f"{lane.machines()} without a server")
    lane.server.start()
    took = runs(lane, "four")
    expect(lane.autoscaler.process.poll() is None, "the autoscaler ended")
    lane.pods("four", 0)
    empty(lane)
    judge_changes(lane, before, 1)
    return f"the Pod runs {took:.1f} s after the start of the server"


def r5(lane):
    """R5: a deletion takes longer than the deadline: no Node is lost, and the size falls once."""
    before = lane.changes()
    lane.pods("five", 2)
    runs(lane, "five", 2)
    expect(len(lane.machines("small")) == 2, f"the machines are {lane.machines()}")
    lane.slow_deletion()
    lane.pods("five", 1)
    lane.until("no machine is deleted", lambda: len(lane.machines()) == 1)
    lane.always("a second machine is deleted, or a Node is lost", lambda: len(lane.machines()) == 1 and len(lane.nodes()) == 4, 20)
    lane.until("the status has no size of 1", lambda: lane.target("small") == 1, 10)
    lane.operator(True)
    lane.until("the Node stays", lambda: len(lane.nodes()) == 3, lane.patience)
    expect(lane.running("five") == 1, "the Pod that stayed does not run")
    lane.pods("five", 0)
    empty(lane)
    judge_changes(lane, before, 2)
    return "one machine deleted in 20 s of waiting; the other Pod ran on"


def r6(lane):
    """R6: Nodes of another platform are in the cluster: they stay, and no call about them fails."""
    expect([it for it in lane.nodes() if it in FOREIGN] == FOREIGN, f"the Nodes are {lane.nodes()}")
    # Other scenarios kill the server: no call succeeds then.
    failed = [line for line in lane.autoscaler.log().splitlines()
              if "foreign-" in line and line.startswith("E") and "code = Unavailable" not in line]
    expect(not failed, f"errors about foreign Nodes: {failed[:3]}")
    writes = [it for it in lane.cluster.writes() if it[3] in FOREIGN and not it[0].startswith("Python")]
    expect(not writes, f"writes to foreign Nodes: {writes[:3]}")
    return "both Nodes stayed, and nothing wrote to them"


def r7(lane):
    """R7: the autoscaler restarts while a machine is being made: it makes at most one more."""
    before = lane.changes()
    lane.operator(False)
    lane.pods("seven", 1)
    lane.until("no machine", lane.machines)
    lane.autoscaler.end(signal.SIGKILL)
    lane.autoscaler.start()
    time.sleep(12)
    n = len(lane.machines())
    expect(1 <= n <= 2, f"{n} machines for one Pod")
    lane.operator(True)
    runs(lane, "seven")
    lane.pods("seven", 0)
    empty(lane)
    judge_changes(lane, before, n)
    return f"{n} machine{'s' if n > 1 else ''} for one Pod"


def r8(lane):
    """R8: one group has no template: the others scale."""
    expect(re.search("No node info for: VirtualMachine/.*/broken", lane.autoscaler.log()), "the log does not name the group without template")
    lane.until("the status does not list the group without template", lambda: lane.group("broken"), 20)
    return "the log names the group; the others scaled"


def r9(lane):
    """R9: a Node that is used little is drained through evictions, and its machine deleted."""
    lane.pods("big", 2)
    runs(lane, "big", 2)
    lane.pods("tiny", 2, "300m", memory="200Mi")
    runs(lane, "tiny", 2)
    lane.pods("big", 0)
    took = lane.until("both machines stay", lambda: len(lane.machines()) == 1)
    runs(lane, "tiny", 2)
    evicted = [it[4] for it in lane.cluster.writes() if it[2] == "pods/eviction"]
    expect(201 in evicted, f"no Pod was evicted; evictions were answered {evicted}")
    lane.pods("tiny", 0)
    empty(lane)
    return f"one machine left after {took:.1f} s, both Pods run on it; evictions answered {evicted}"


def r10(lane):
    """R10: all groups are at their maximum: the autoscaler says so, and adds nothing."""
    before = lane.changes()
    lane.pods("ten", 9, anywhere=True)
    lane.until("the groups are not at their maximum", lambda: (lane.target("small"), lane.target("large")) == (3, 2), 90)
    runs(lane, "ten", lane.room)
    lane.until("no event says that the maximum is reached",
               lambda: any("max node group size reached" in it for it in lane.events("NotTriggerScaleUp", "ten-")))
    expect(len(lane.machines()) == 5, f"{len(lane.machines())} machines")
    lane.pods("ten", 0)
    empty(lane)
    judge_changes(lane, before, 5)
    return f"5 machines for 9 Pods, {lane.room} of them run"


# R6 and R8 look back at the others, if they share a cluster with them.
SCENARIOS = {"R1": r1, "R9": r9, "R4": r4, "R5": r5, "R7": r7, "R3": r3, "R10": r10, "R2": r2, "R8": r8, "R6": r6}
# Scenarios in which the autoscaler waits less or longer for a Node than usual.
PROVISION = {"R3": "45s", "R2": "150s"}
