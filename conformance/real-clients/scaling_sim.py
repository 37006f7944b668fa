#!/usr/bin/env python3
"""Runs the real Cluster Autoscaler against the simulated workload cluster alone, with our server and our cloud provider.

  CA_BINARY=FILE conformance/real-clients/scaling_sim.py [--provider PROVIDER] [--sim SIM] [SCENARIO…]

One `sim serve --supervisor --workloads` is the Supervisor, the machines with their kubelets, and the cluster with its scheduler and
controllers. `provider autoscaler` makes the machines, and `provider` in Supervisor mode initializes and deletes the Nodes. A machine
joins by `kubeadm join` in its user data. The scenarios take about three minutes. Without CA_BINARY the script ends with 77.

Scenarios (as in autoscaler.py):
"""
import argparse
import os
import sys
import time

from autoscaler import GROUPS, HOW_TO_GET, add_large_class, expect
from scaling import Lane
from servers import Failed, World, end_in_order_on_sigterm

TOKEN = ("abcdef", "0123456789abcdef")
# Kinds whose lists the caches of the autoscaler need before its first loop.
CACHED = (
    "pods", "nodes", "namespaces", "services", "replicationcontrollers", "persistentvolumes", "persistentvolumeclaims", "daemonsets",
    "replicasets", "statefulsets", "jobs", "poddisruptionbudgets", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities",
    "volumeattachments", "resourceclaims", "resourceslices", "deviceclasses")


class SimulatedCluster(World):
    """A world that also schedules and runs pods."""

    def options(self):
        return [*super().options(), "--workloads"]


class Idle:
    """In place of the kubelets that scaling.py plays: the sim has its own."""
    trouble = None

    def start(self):
        pass

    def end(self):
        pass


class SimLane(Lane):
    """The lane without a real cluster."""

    def __init__(self, binary, provider, world):
        super().__init__(binary, provider, world, world)
        self.kubelets = Idle()

    def process(self, name, command, env=None):
        # The sim has the parts of a cluster for which the other lane starts programs.
        return None if name in ("scheduler", "controllers") else super().process(name, command, env)

    def pods(self, name, replicas, cpu="1500m", anywhere=True):
        # No foreign Nodes are in the cluster, and the cloud provider labels none of ours with its class.
        super().pods(name, replicas, cpu, anywhere)

    def start(self, groups):
        token = {"token-id": TOKEN[0], "token-secret": TOKEN[1], "usage-bootstrap-authentication": "true"}
        self.cluster.must("POST", "/api/v1/namespaces/kube-system/secrets", {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"bootstrap-token-{TOKEN[0]}"},
            "type": "bootstrap.kubernetes.io/token", "stringData": token})
        super().start(groups)
        self.bootstrap(f"kubeadm join 10.0.0.1:6443 --token {'.'.join(TOKEN)}")
        self.start_cloud_provider("--authentication-skip-lookup")
        # A machine of the sim joins 40 s after its creation.
        words = [it for it in self.autoscaler.command if not str(it).startswith("--max-node-provision-time")]
        self.autoscaler.command = [*words, "--max-node-provision-time=120s"]
        self.autoscaler.start()


def empty(lane, seconds=90):
    lane.until("machines or Nodes are left", lambda: not lane.machines() and not lane.nodes(), seconds)


# ---- the scenarios

def caches(lane):
    """caches: every list and watch of the autoscaler is answered, and its loop runs."""
    lane.until("the loop does not run", lambda: "Starting main loop" in lane.autoscaler.log())
    calls = [(op, status) for face, agent, op, status in lane.world.calls() if face == "k8s.guest" and "cluster-autoscaler" in agent]
    asked = {op.split()[1] for op, _ in calls if op.startswith(("list ", "watch "))}
    expect(set(CACHED) <= asked, f"not asked for: {sorted(set(CACHED) - asked)}")
    failed = sorted({it for it in calls if (it[1] or 200) >= 400 and it != ("get configmaps", 404)})
    expect(not failed, f"refused: {failed}")
    return f"{len(calls)} calls, {len(asked)} resources"


def r1(lane):
    """R1: 0 → 1 → 0: a Pod needs a machine, and the machine goes after the Pod."""
    lane.pods("one", 1)
    created = lane.until("no machine", lambda: len(lane.machines()) == 1)
    runs = lane.until("the Pod does not run", lambda: lane.running("one") == 1, 90)
    lane.until("the status has no size of 1", lambda: lane.target("small") == 1)
    expect(lane.events("TriggeredScaleUp"), "no event TriggeredScaleUp")
    lane.pods("one", 0)
    gone = lane.until("the machine stays", lambda: not lane.machines())
    empty(lane)
    lane.until("the status has no size of 0", lambda: lane.target("small") == 0)
    expect(lane.created() == 1, f"{lane.created()} machines were created")
    return f"machine after {created:.1f} s, Pod runs {runs:.1f} s later, machine deleted {gone:.1f} s after the Pod"


def r9(lane):
    """R9: a Node that is used little is drained through evictions, and its machine deleted."""
    lane.pods("big", 2)
    lane.until("the large Pods do not run", lambda: lane.running("big") == 2, 120)
    lane.pods("tiny", 2, "300m")
    lane.until("the small Pods do not run", lambda: lane.running("tiny") == 2)
    lane.pods("big", 0)
    took = lane.until("both machines stay", lambda: len(lane.machines()) == 1)
    lane.until("the small Pods do not run on one Node", lambda: lane.running("tiny") == 2)
    evictions = [status for _, _, op, status in lane.world.calls() if op == "create pods/eviction"]
    expect(201 in evictions, f"no Pod was evicted; evictions were answered {evictions}")
    lane.pods("tiny", 0)
    empty(lane)
    return f"one machine left after {took:.1f} s, both Pods run on it; evictions answered {evictions}"


SCENARIOS = {"caches": caches, "R1": r1, "R9": r9}


def main():
    catalogue = "".join(f"  {name:7} {it.__doc__.partition(': ')[2]}\n" for name, it in SCENARIOS.items())
    arguments = argparse.ArgumentParser(
        description=__doc__ + catalogue, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    passed = []
    with SimulatedCluster(given.sim, "sim", 0) as world:
        lane = SimLane(binary, given.provider, world)
        try:
            add_large_class(lane)
            lane.start(GROUPS.format(small=3))
            for name in given.scenarios or SCENARIOS:
                begin, scenario = time.monotonic(), SCENARIOS[name]
                try:
                    said = scenario(lane)
                except Failed as failure:
                    print(f"FAIL {scenario.__doc__}\n     {failure}", flush=True)
                    passed.append(False)
                    break
                print(f"ok   {scenario.__doc__} [{said}; {time.monotonic() - begin:.0f} s]", flush=True)
                passed.append(True)
        finally:
            lane.end()
            world.keep = not (passed and all(passed))
    print(f"{sum(passed)} of {len(passed)} scenarios passed")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
