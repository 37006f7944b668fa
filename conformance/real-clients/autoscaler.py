#!/usr/bin/env python3
"""Runs the real Cluster Autoscaler with our server for it, `provider autoscaler`, over the simulated Supervisor and a real cluster.

  CA_BINARY=FILE conformance/real-clients/autoscaler.py [--provider PROVIDER] [--sim SIM] [SCENARIO…]

The cluster has a real kube-apiserver, scheduler and controller manager; scaling.py plays its kubelets. Each scenario begins and ends
without machines. It is judged by the status, the events and the metrics of the autoscaler, by the Nodes and VirtualMachines, and by the
calls in the sim's ledger. All scenarios take about ten minutes. Without CA_BINARY the script ends with 77 and says how to get one.

Scenarios (R1 to R10 as in the report, docs/autoscaler-report.md):
"""
import argparse
import os
import re
import signal
import sys
import time

from lane import NODES, expect
from scaling import Lane
from servers import Real, World, end_in_order_on_sigterm

GROUPS = """groups:
- name: small
  max: {small}
  machine: &machine {{className: best-effort-small, imageName: vmi-0123456789abcdef0, storageClass: gold, zone: zone-a,
                     bootstrap: {{secretName: bootstrap}}}}
- name: large
  max: 2
  machine: {{className: best-effort-large, imageName: vmi-0123456789abcdef0, storageClass: gold, zone: zone-b,
            bootstrap: {{secretName: bootstrap}}}}
- name: broken
  max: 2
  machine: {{className: missing, imageName: vmi-0123456789abcdef0, storageClass: gold, bootstrap: {{secretName: bootstrap}}}}
"""
HOW_TO_GET = """skipped: CA_BINARY is not set; how to get it: check out the tag cluster-autoscaler-1.36.1 of github.com/kubernetes/autoscaler, \
and run `go build -tags externalgrpc .` in its folder cluster-autoscaler (two minutes)"""
FOREIGN = ("foreign-1", "foreign-2")
NONE = list(FOREIGN)


def add_foreign_nodes(lane):
    for name in FOREIGN:
        lane.cluster.must("POST", NODES, {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"providerID": f"kind://{name}", "taints": [{"key": "foreign", "effect": "NoSchedule"}]},
            "status": {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"}, "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
                       "conditions": [{"type": "Ready", "status": "True"}]}})


def add_large_class(lane):
    path = f"/apis/vmoperator.vmware.com/v1alpha6/namespaces/{lane.world.namespace}/virtualmachineclasses"
    lane.world.supervisor.must("POST", path, {
        "apiVersion": "vmoperator.vmware.com/v1alpha6", "kind": "VirtualMachineClass", "metadata": {"name": "best-effort-large"},
        "spec": {"hardware": {"cpus": 4, "memory": "16Gi"}}})


def empty(lane, seconds=90):
    """Waits until no machine and no Node of one is left."""
    lane.until("machines or Nodes are left", lambda: not lane.machines() and lane.nodes() == NONE, seconds)


# ---- the scenarios

def r1(lane):
    """R1: 0 → 1 → 0: a Pod needs a machine, and the machine goes after the Pod."""
    lane.pods("one", 1)
    created = lane.until("no machine", lambda: len(lane.machines()) == 1)
    runs = lane.until("the Pod does not run", lambda: lane.running("one") == 1)
    lane.until("the status has no size of 1", lambda: lane.target("small") == 1)
    expect(lane.events("TriggeredScaleUp"), "no event TriggeredScaleUp")
    lane.pods("one", 0)
    gone = lane.until("the machine stays", lambda: not lane.machines())
    empty(lane)
    lane.until("the status has no size of 0", lambda: lane.target("small") == 0)
    expect(lane.created() == 1, f"{lane.created()} machines were created")
    return f"machine after {created:.1f} s, Pod runs {runs:.1f} s later, machine deleted {gone:.1f} s after the Pod"


def r2(lane):
    """R2: a machine cannot be made for lack of resources: the autoscaler backs off and takes the other group."""
    zone = "/apis/topology.tanzu.vmware.com/v1alpha1/availabilityzones/zone-a"
    kept = lane.world.supervisor.must("GET", zone)
    lane.world.supervisor.must("DELETE", zone)
    try:
        lane.pods("two", 1, anywhere=True)
        lane.until("no machine in the first group", lambda: lane.machines("small"))
        other = lane.until("no machine in the other group", lambda: lane.machines("large"), 150)
        lane.until("the failed machine stays", lambda: not lane.machines("small"))
        lane.until("the Pod does not run", lambda: lane.running("two") == 1)
    finally:
        kept["metadata"] = {"name": "zone-a"}
        lane.world.supervisor.must("POST", zone.rpartition("/")[0], kept)
    said = [line for line in lane.autoscaler.log().splitlines() if "Disabling scale-up for node group" in line]
    expect(any("errorClass=OutOfResource" in line or "OutOfResource" in line for line in said), f"no back-off by class: {said}")
    lane.pods("two", 0)
    empty(lane)
    return f"other group chosen {other:.0f} s after the first machine"


def r3(lane):
    """R3: a machine is never made: the autoscaler gives up after its time and deletes the instance."""
    lane.operator(False)
    lane.pods("three", 1)
    lane.until("no machine", lambda: lane.machines())
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
    lane.server.end(signal.SIGKILL)
    lane.pods("four", 1)
    time.sleep(15)
    expect(lane.autoscaler.process.poll() is None, "the autoscaler ended")
    lane.server.start()
    took = lane.until("the Pod does not run", lambda: lane.running("four") == 1)
    lane.pods("four", 0)
    empty(lane)
    return f"the Pod runs {took:.1f} s after the start of the server"


def r5(lane):
    """R5: a deletion takes longer than the deadline: no Node is lost, and the size falls once."""
    lane.pods("five", 2)
    lane.until("the Pods do not run", lambda: lane.running("five") == 2)
    lane.operator(False)
    lane.pods("five", 1)
    lane.until("no machine is deleted", lambda: len(lane.machines()) == 1)
    lane.always("a second machine is deleted, or a Node is lost", lambda: len(lane.machines()) == 1 and len(lane.nodes()) == 4, 20)
    lane.operator(True)
    lane.until("the Node stays", lambda: len(lane.nodes()) == 3)
    expect(lane.running("five") == 1, "the Pod that stayed does not run")
    lane.pods("five", 0)
    empty(lane)
    return "one machine deleted in 20 s of waiting; the other Pod ran on"


def r6(lane):
    """R6: Nodes of another platform are in the cluster: they stay, and no call about them fails."""
    expect([it for it in lane.nodes() if it in FOREIGN] == NONE, f"the Nodes are {lane.nodes()}")
    failed = [line for line in lane.autoscaler.log().splitlines() if "foreign-" in line and line.startswith("E")]
    expect(not failed, f"errors about foreign Nodes: {failed[:3]}")
    return "both Nodes stayed through all scenarios before"


def r7(lane):
    """R7: the autoscaler restarts while a machine is being made: it makes at most one more."""
    lane.operator(False)
    lane.pods("seven", 1)
    lane.until("no machine", lambda: lane.machines())
    lane.autoscaler.end(signal.SIGKILL)
    lane.autoscaler.start()
    time.sleep(12)
    n = len(lane.machines())
    expect(n <= 2, f"{n} machines for one Pod")
    lane.operator(True)
    lane.until("the Pod does not run", lambda: lane.running("seven") == 1)
    lane.pods("seven", 0)
    empty(lane, 120)
    return f"{n} machine{'s' if n > 1 else ''} for one Pod"


def r8(lane):
    """R8: one group has no template: the others scale."""
    expect(re.search("No node info for: VirtualMachine/.*/broken", lane.autoscaler.log()), "the log does not name the group without template")
    return "the log names the group; all scenarios before scaled"


def r9(lane):
    """R9: a Node that is used little is drained through evictions, and its machine deleted."""
    lane.pods("big", 2)
    lane.until("the large Pods do not run", lambda: lane.running("big") == 2)
    lane.pods("tiny", 2, "300m")
    lane.until("the small Pods do not run", lambda: lane.running("tiny") == 2)
    lane.pods("big", 0)
    took = lane.until("both machines stay", lambda: len(lane.machines()) == 1)
    lane.until("the small Pods do not run on one Node", lambda: lane.running("tiny") == 2)
    evicted = [it for it in lane.cluster.writes() if it[2] == "pods/eviction" and it[4] == 201]
    expect(evicted, "no Pod was evicted")
    lane.pods("tiny", 0)
    empty(lane)
    return f"one machine left after {took:.1f} s, both Pods run on it"


def r10(lane):
    """R10: all groups are at their maximum: the autoscaler says so, and adds nothing."""
    lane.pods("ten", 9, anywhere=True)
    lane.until("the groups are not at their maximum", lambda: (lane.target("small"), lane.target("large")) == (3, 2), 90)
    lane.until("not seven Pods run", lambda: lane.running("ten") == 7, 90)
    lane.until("no event says that the maximum is reached",
               lambda: any("max node group size reached" in it for it in lane.events("NotTriggerScaleUp")))
    expect(len(lane.machines()) == 5, f"{len(lane.machines())} machines")
    lane.pods("ten", 0)
    empty(lane, 120)
    return "5 machines for 9 Pods, 7 of them run"


def calls(lane):
    """calls: with one Node of a group, two foreign Nodes and nothing to do, each loop makes few calls."""
    lane.pods("calls", 1)
    lane.until("the Pod does not run", lambda: lane.running("calls") == 1)
    time.sleep(8)
    first, rpcs = lane.rpcs()
    time.sleep(40)
    last, later = lane.rpcs()
    # Each loop refreshes once.
    n = later["Refresh"] - rpcs["Refresh"]
    expect(n >= 10, f"{n} loops in 40 s")
    per_loop = {method: (later[method] - rpcs.get(method, 0)) / n for method in sorted(later)}
    lane.pods("calls", 0)
    empty(lane)
    return f"{n} loops, {last - first} requests to the Supervisor; calls per loop: " + ", ".join(
        f"{method} {count:.1f}" for method, count in per_loop.items() if count)


def many(lane):
    """many: 500 Pods need 39 machines; the server is killed in the middle; then all go."""
    lane.groups.write_text(GROUPS.format(small=60))
    before = lane.created()
    lane.pods("many", 500, "150m")
    lane.until("no machine", lambda: len(lane.machines()) >= 1, 90)
    lane.server.end(signal.SIGKILL)
    lane.server.start()
    begin = time.monotonic()
    lane.until("not all Pods run", lambda: lane.running("many") == 500, 300)
    took, n = time.monotonic() - begin, len(lane.machines())
    expect(n <= 45, f"{n} machines for 500 Pods")
    expect(lane.created() - before <= n + 2, f"{lane.created() - before} machines were created, and {n} are there")
    lane.pods("many", 0)
    gone = lane.until("machines are left", lambda: not lane.machines(), 300)
    empty(lane, 120)
    return f"{n} machines, all Pods run after {took:.0f} s; none left {gone:.0f} s after the Pods"


SCENARIOS = {"R1": r1, "R9": r9, "R4": r4, "R5": r5, "R7": r7, "R3": r3, "R10": r10, "R2": r2, "R8": r8, "R6": r6, "calls": calls, "many": many}
# Scenarios in which the autoscaler waits less or longer for a Node than a minute.
PROVISION = {"R3": "45s", "R2": "150s"}


def play(lane, name):
    lane.provision_time(PROVISION.get(name, "60s"))
    return lane.play(SCENARIOS[name])


def main():
    catalogue = "".join(f"  {name:5} {it.__doc__.partition(': ')[2]}\n" for name, it in SCENARIOS.items())
    arguments = argparse.ArgumentParser(description=__doc__ + catalogue, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--provider", default="target/release/provider")
    arguments.add_argument("--sim", default="target/release/sim")
    arguments.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    given = arguments.parse_args()
    end_in_order_on_sigterm()
    unknown = [it for it in given.scenarios if it not in SCENARIOS]
    if unknown:
        arguments.error(f"unknown scenario '{unknown[0]}': expected {', '.join(SCENARIOS)}")
    binary = os.environ.get("CA_BINARY")
    if not binary:
        print(HOW_TO_GET)
        return 77
    with Real() as cluster, World(given.sim, "sim", 0) as world:
        lane = Lane(binary, given.provider, cluster, world)
        try:
            add_large_class(lane)
            add_foreign_nodes(lane)
            lane.start(GROUPS.format(small=3))
            passed = [play(lane, name) for name in given.scenarios or SCENARIOS]
        finally:
            lane.end()
            cluster.keep = cluster.keep or "passed" not in locals() or not all(passed)
    print(f"{sum(passed)} of {len(passed)} scenarios passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
