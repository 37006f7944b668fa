#!/usr/bin/env python3
"""Runs the real Cluster Autoscaler over Cluster API with our `provider capacity`, which lets groups grow from zero.

  CA_CLUSTERAPI_BINARY=FILE conformance/real-clients/autoscaler_clusterapi.py [--provider PROVIDER] [SCENARIO…]
  CA_BINARY=FILE conformance/real-clients/autoscaler_clusterapi.py --server [--provider PROVIDER] [SCENARIO…]

The first command runs the autoscaler's own Cluster API provider, the second one our server, `provider autoscaler --backend
cluster-api`, over the same objects. A real kube-apiserver is the management cluster and the workload cluster. With --sim the Supervisor
of `sim serve` is the management cluster. clusterapi.py plays the controllers of Cluster API.

Each scenario has its own group, which begins and ends without machines. It is judged by the objects of Cluster API, the events and the
status of the autoscaler, the writes in the audit log, and Nodes and Pods. Before a scenario says that Pods start no machine, it waits
for the autoscaler's event about them and for three more loops. All scenarios take about six minutes. Without the variable the script
ends with 77 and says how to get the binary.

Scenarios (as in the report, docs/autoscaler-report.md):
"""
import os
import sys
from contextlib import nullcontext

from clusterapi_scenarios import SCENARIOS, prepare
from growing import Lane
from lane_arguments import chosen, parser_of
from servers import Real, World, end_in_order_on_sigterm

HOW_TO_GET = """skipped: {} is not set; how to get it: check out the tag cluster-autoscaler-1.36.1 of \
github.com/kubernetes/autoscaler, and run `go build -tags {} .` in its folder cluster-autoscaler (three minutes)"""


def play(lane, name):
    if name != "S1":
        lane.reconcile()
    return lane.play(SCENARIOS[name])


def main():
    parser = parser_of(__doc__, SCENARIOS)
    parser.add_argument("--server", action="store_true", help="use our server in place of the autoscaler's Cluster API provider")
    parser.add_argument("--sim", metavar="SIM", help="use the Supervisor of this sim as the management cluster")
    given = parser.parse_args()
    end_in_order_on_sigterm()
    # The simulated Supervisor has an administrator only, so that S16 would judge nothing.
    names = chosen(parser, given, [it for it in SCENARIOS if it != "S16" or not given.sim])
    variable, tag = ("CA_BINARY", "externalgrpc") if given.server else ("CA_CLUSTERAPI_BINARY", "clusterapi")
    binary = os.environ.get(variable)
    if not binary:
        print(HOW_TO_GET.format(variable, tag))
        return 77
    with Real() as cluster, World(given.sim, "sim", 0) if given.sim else nullcontext() as world:
        lane = Lane(binary, given.provider, cluster, given.server, world)
        try:
            lane.start()
            prepare(lane)
            lane.autoscaler.start()
            passed = [play(lane, name) for name in names]
        finally:
            lane.end()
            for it in filter(None, (cluster, world)):
                it.keep = it.keep or "passed" not in locals() or not all(passed)
    print(f"{sum(passed)} of {len(passed)} scenarios passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
