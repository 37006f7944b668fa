#!/usr/bin/env python3
"""Runs the real Cluster Autoscaler with our server for it, `provider autoscaler`, over the simulated Supervisor and a real cluster.

  CA_BINARY=FILE conformance/real-clients/autoscaler.py [--provider PROVIDER] [--sim SIM] [SCENARIO…]

The cluster has a real kube-apiserver, scheduler and controller manager; scaling.py plays its kubelets. Each scenario begins and ends
without machines. It is judged by the status, the events and the metrics of the autoscaler, by the Nodes and VirtualMachines, and by the
calls in the sim's ledger. All scenarios take about ten minutes. Without CA_BINARY the script ends with 77 and says how to get one.

Scenarios (R1 to R10 as in the report, docs/autoscaler-report.md):
"""
import os
import signal
import sys
import time

import scaling_scenarios
from lane import expect
from lane_arguments import chosen, parser_of
from scaling import Lane
from scaling_scenarios import HOW_TO_GET, empty, groups, prepare
from servers import Real, World, end_in_order_on_sigterm


# ---- the scenarios of this lane alone

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
    lane.groups.write_text(groups(small=60))
    before = lane.changes()
    lane.pods("many", 500, "150m", memory="100Mi")
    lane.until("no machine", lambda: len(lane.machines()) >= 1, 90)
    lane.server.end(signal.SIGKILL)
    lane.server.start()
    begin = time.monotonic()
    lane.until("not all Pods run", lambda: lane.running("many") == 500, 300)
    took, n = time.monotonic() - begin, len(lane.machines())
    expect(n <= 45, f"{n} machines for 500 Pods")
    created = (lane.changes() - before)["create", "provider"]
    expect(created <= n + 2, f"{created} machines were created, and {n} are there")
    lane.pods("many", 0)
    gone = lane.until("machines are left", lambda: not lane.machines(), 300)
    empty(lane)
    return f"{n} machines, all Pods run after {took:.0f} s; none left {gone:.0f} s after the Pods"


SCENARIOS = {**scaling_scenarios.SCENARIOS, "calls": calls, "many": many}


def play(lane, name):
    lane.provision_time(scaling_scenarios.PROVISION.get(name, "60s"))
    return lane.play(SCENARIOS[name])


def main():
    parser = parser_of(__doc__, SCENARIOS)
    parser.add_argument("--sim", default="target/release/sim")
    given = parser.parse_args()
    end_in_order_on_sigterm()
    names = chosen(parser, given, SCENARIOS)
    binary = os.environ.get("CA_BINARY")
    if not binary:
        print(HOW_TO_GET)
        return 77
    with Real() as cluster, World(given.sim, "sim", 0) as world:
        lane = Lane(binary, given.provider, cluster, world)
        try:
            prepare(lane)
            lane.start(groups())
            passed = [play(lane, name) for name in names]
        finally:
            lane.end()
            cluster.keep = cluster.keep or "passed" not in locals() or not all(passed)
    print(f"{sum(passed)} of {len(passed)} scenarios passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
