#!/usr/bin/env python3
"""Runs the real Cluster Autoscaler against the simulated workload cluster alone, with our server and our cloud provider.

  CA_BINARY=FILE conformance/real-clients/scaling_sim.py [--provider PROVIDER] [--sim SIM] [SCENARIO…]

One `sim serve --supervisor --workloads` is the Supervisor, the machines with their kubelets, and the cluster with its scheduler and
controllers. `provider autoscaler` makes the machines, and `provider` in Supervisor mode initializes and deletes the Nodes. A machine
joins by `kubeadm join` in its user data. Each scenario has its own world. Several run at once (--jobs), in about five minutes.
With --break each scenario gets a fault (scaling_faults.py) and has to fail. Without CA_BINARY the script ends with 77.

Scenarios (R1 to R10 as in autoscaler.py and in docs/autoscaler-report.md):
"""
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import wraps

import scaling_faults
import scaling_scenarios
from lane import expect
from lane_arguments import chosen, parser_of
from scaling_scenarios import HOW_TO_GET, empty, groups, prepare, runs
from servers import Failed, end_in_order_on_sigterm
from sim_lane import Lane, SimulatedCluster

# Kinds whose lists the caches of the autoscaler need before its first loop.
CACHED = (
    "pods", "nodes", "namespaces", "services", "replicationcontrollers", "persistentvolumes", "persistentvolumeclaims", "daemonsets",
    "replicasets", "statefulsets", "jobs", "poddisruptionbudgets", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities",
    "volumeattachments", "resourceclaims", "resourceslices", "deviceclasses")


# ---- the scenarios that are more here than over a real cluster

def caches(lane):
    """caches: every list and watch of the autoscaler is answered, and its loop runs."""
    lane.until("the loop does not run", lambda: "Starting main loop" in lane.autoscaler.log())
    calls = [(op, status) for face, agent, op, status in lane.world.calls() if face == "k8s.guest" and "cluster-autoscaler" in agent]
    asked = {op.split()[1] for op, _ in calls if op.startswith(("list ", "watch "))}
    expect(set(CACHED) <= asked, f"not asked for: {sorted(set(CACHED) - asked)}")
    failed = sorted({it for it in calls if (it[1] or 200) >= 400 and it != ("get configmaps", 404)})
    expect(not failed, f"refused: {failed}")
    return f"{len(calls)} calls, {len(asked)} resources"


def late(lane):
    """late: the cloud provider initializes a Node late: the autoscaler makes no second machine for the Pod that waits."""
    lane.pods("late", 1)
    lane.until("no machine", lane.machines)
    lane.cloud_provider.process.send_signal(signal.SIGSTOP)
    lane.until("no Node of the machine", lambda: len(lane.nodes()) == 3, lane.patience)
    # Shorter than the time after which the autoscaler deletes an unready Node, longer than two of its loops.
    time.sleep(2.5)
    lane.cloud_provider.process.send_signal(signal.SIGCONT)
    runs(lane, "late")
    n = len(lane.machines())
    expect(n == 1, f"{n} machines for one Pod")
    lane.pods("late", 0)
    empty(lane)
    return "one machine for one Pod"


@wraps(scaling_scenarios.r3)
def r3(lane):
    said = scaling_scenarios.r3(lane)
    lane.judge_rpcs("NodeGroupDecreaseTargetSize", "/small", fails=False)
    return f"{said}; the autoscaler took the size back"


@wraps(scaling_scenarios.r5)
def r5(lane):
    said = scaling_scenarios.r5(lane)
    calls = [(it["req"]["detail"], it["ended"].get("broken")) for it in lane.world.rpcs("NodeGroupDeleteNodes") if "ended" in it]
    expect(calls[:2] == [(calls[0][0], "abandoned"), (calls[0][0], None)], f"no retry for the same machine after a deadline: {calls}")
    expect(lane.events("ScaleDownFailed"), "no event ScaleDownFailed")
    return f"{said}; the second call for the same machine succeeded"


@wraps(scaling_scenarios.r6)
def r6(lane):
    scaling_scenarios.r1(lane)
    said = scaling_scenarios.r6(lane)
    return f"{said}; {lane.judge_rpcs('NodeGroupForNode', '', fails=False)} calls NodeGroupForNode succeeded"


@wraps(scaling_scenarios.r8)
def r8(lane):
    scaling_scenarios.r1(lane)
    said = scaling_scenarios.r8(lane)
    lane.judge_rpcs("NodeGroupTemplateNodeInfo", "/small", fails=False)
    return f"{said}; {lane.judge_rpcs('NodeGroupTemplateNodeInfo', '/broken', fails=True)} calls for its template failed"


SCENARIOS = {**scaling_scenarios.SCENARIOS, "R3": r3, "R5": r5, "R6": r6, "R8": r8, "late": late, "caches": caches}
# Seconds that the autoscaler gives to a new machine. By default three times as long as a machine of the sim takes.
PROVISION = {**scaling_scenarios.PROVISION, "R3": "60s"}
# Scenarios in which the autoscaler connects to our server itself.
DIRECT = ("R4",)


def play(name, binary, given):
    """Plays a scenario in its own world. Returns True if it ended as it must."""
    fault = scaling_faults.FAULTS[name] if given.broken else None
    with SimulatedCluster(given.sim) as world:
        lane = Lane(binary, given.provider, world, name in DIRECT)
        try:
            prepare(lane)
            lane.start(groups(**(fault.groups if fault else {})))
            if fault:
                fault.act(lane)
            lane.provision_time(PROVISION.get(name, "120s"))
            passed = fails(lane, name, fault) if fault else lane.play(SCENARIOS[name])
            world.keep = not passed
            return passed
        finally:
            lane.end()


def fails(lane, name, fault):
    """Plays a scenario with its fault, and prints a line about it. Returns True if the scenario failed for the reason that the fault has."""
    begin = time.monotonic()
    try:
        said = SCENARIOS[name](lane)
    except Failed as failure:
        said = str(failure).splitlines()[0]
        if fault.why in said:
            print(f"ok   {name} fails: {fault.text} [{said}; {time.monotonic() - begin:.0f} s]", flush=True)
            return True
        print(f"FAIL {name} fails for another reason than '{fault.why}': {failure}", flush=True)
        return False
    print(f"FAIL {name} passes, although {fault.text} [{said}]", flush=True)
    return False


def play_apart(names, given):
    """Plays each scenario in a process of its own, `given.jobs` at once. Returns for each one True if it ended as it must."""
    words = ["--provider", given.provider, "--sim", given.sim, *(["--break"] if given.broken else [])]
    waiting, running, passed = list(names), [], []
    try:
        while waiting or running:
            while waiting and len(running) < given.jobs:
                out = tempfile.TemporaryFile("w+")
                command = [sys.executable, __file__, *words, waiting.pop(0)]
                running.append((subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out), out))
            for child, out in [it for it in running if it[0].poll() is not None]:
                running.remove((child, out))
                out.seek(0)
                print(out.read(), end="", flush=True)
                passed.append(child.returncode == 0)
            time.sleep(0.2)
    finally:
        for child, _ in running:
            child.terminate()
        for child, _ in running:
            child.wait()
    return passed


def main():
    parser = parser_of(__doc__, SCENARIOS)
    parser.add_argument("--sim", default="target/release/sim")
    parser.add_argument("--jobs", type=int, default=6, metavar="N", help="number of scenarios that run at once [default: 6]")
    parser.add_argument("--break", dest="broken", action="store_true", help="give each scenario a fault; pass if each one fails")
    given = parser.parse_args()
    end_in_order_on_sigterm()
    names = chosen(parser, given, SCENARIOS)
    binary = os.environ.get("CA_BINARY")
    if not binary:
        print(HOW_TO_GET)
        return 77
    begin = time.monotonic()
    if len(names) == 1:
        return 0 if play(names[0], binary, given) else 1
    passed = play_apart(names, given)
    print(f"{sum(passed)} of {len(passed)} scenarios {'failed as they must' if given.broken else 'passed'} after {time.monotonic() - begin:.0f} s")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
