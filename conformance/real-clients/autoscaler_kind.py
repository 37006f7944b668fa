#!/usr/bin/env python3
"""Scales a kind cluster with simulated machines: the Cluster Autoscaler, our server for it and our cloud provider.

  [CA_BINARY=FILE] conformance/real-clients/autoscaler_kind.py [--provider PROVIDER] [--sim SIM] [--lab CONFORMANCE]

Pods that fit no Node of kind make a group grow from 0 to 2. The simulated machines boot, join the cluster by kubeadm's bootstrap token, are
initialized by the cloud provider, and run the Pods. After the Pods the group goes to 0, and the cloud provider deletes the Nodes.
The scheduler, the controller manager and the node of the cluster are real; joining.py plays the kubelets of the machines. Without CA_BINARY,
autoscaler_stand_in.py decides in place of the autoscaler. Each step has a time limit, and is judged by objects, events and the ledger of the
sim. Takes about three minutes. Ends with 77 without a Docker engine.
"""
import argparse
import os
import shutil
import signal
import sys
import time

from kind_cluster import KindCluster, engine_answers
from kind_scaling import APP, Lane
from lane import PODS, expect
from servers import Failed, World, end_in_order_on_sigterm

NO_OPENSSL = "skipped: openssl is missing; how to get it: apt-get install openssl"
GROUP = "workers"
GROUPS = """groups:
- name: workers
  max: 3
  machine: {className: best-effort-small, imageName: vmi-0123456789abcdef0, storageClass: gold, zone: zone-a,
            bootstrap: {secretName: bootstrap}}
"""
N_MACHINES = 2
NO_ENGINE = "skipped: no Docker engine answers; how to get it: install Docker and start it, or run `kind/engine.sh up` as root"


# ---- the scenario, as steps; each returns what it saw

def grow(lane):
    """Pods that fit no Node: the scheduler says so, and the group grows from 0 to 2."""
    expect(not lane.machines() and not lane.joined(), f"machines {lane.machines()} and Nodes {list(lane.joined())} are there at the start")
    lane.pods(APP, N_MACHINES, anywhere=True)
    lane.until(f"the scheduler does not say of {N_MACHINES} Pods that they fit no Node", lambda: len(lane.pending()) == N_MACHINES, 30)
    expect(lane.by("FailedScheduling", "default-scheduler", APP), "no event FailedScheduling of the scheduler")
    took = lane.until(lambda: f"the group has {len(lane.machines(GROUP))} machines, expected {N_MACHINES}: VirtualMachines were not created",
                      lambda: len(lane.machines(GROUP)) == N_MACHINES)
    if lane.binary:
        lane.until("no event TriggeredScaleUp of the autoscaler", lambda: lane.events("TriggeredScaleUp", APP), 30)
    return f"{N_MACHINES} machines after {took:.1f} s"


def join(lane):
    """The machines boot, get certificates for kubeadm's bootstrap token, and register as Nodes."""
    took = lane.until(lambda: f"of the machines {lane.machines()} only {list(lane.joined())} registered as Nodes; "
                              f"error of a kubelet: {lane.kubelets.error}", lambda: sorted(lane.joined()) == lane.machines(), 90)
    names = lane.certified()
    expect(names == lane.machines(), f"the cluster approved and signed requests of the bootstrap token {lane.token} for {names}, and the "
                                     f"machines are {lane.machines()}")
    return f"{len(names)} certificates, Nodes after {took:.1f} s"


def initialize(lane):
    """The cloud provider initializes the Nodes: provider ID, address and no taint."""
    took = lane.until(lambda: f"the cloud provider did not initialize the Nodes; they lack {lane.uninitialized()}",
                      lambda: not lane.uninitialized(), 40)
    lane.initialized = set(lane.joined())
    return f"after {took:.1f} s"


def bind(lane):
    """The scheduler of kind binds the Pods to the new Nodes, and they run."""
    took = lane.until(lambda: f"{lane.running(APP)} of {N_MACHINES} Pods run", lambda: lane.running(APP) == N_MACHINES, 60)
    pods = lane.cluster.must("GET", f"{PODS}?labelSelector=app%3D{APP}")["items"]
    hosts = sorted(it["spec"]["nodeName"] for it in pods)
    expect(hosts == lane.machines(GROUP), f"the Pods run on {hosts}, and the machines are {lane.machines(GROUP)}")
    scheduled = lane.by("Scheduled", "default-scheduler", APP)
    expect(len(scheduled) == N_MACHINES, f"events Scheduled of the scheduler: {scheduled}")
    return f"one on each, after {took:.1f} s"


def shrink(lane):
    """The Pods are deleted: the group goes to 0 machines."""
    lane.pods(APP, 0)
    took = lane.until(lambda: f"VirtualMachines of the group were not deleted: {lane.machines(GROUP)}", lambda: not lane.machines(GROUP), 90)
    wanted = {("create", "provider"): N_MACHINES, ("delete", "provider"): N_MACHINES}
    expect(lane.changes() == wanted, f"the ledger has {dict(lane.changes())} of VirtualMachines, expected {wanted}")
    if lane.binary:
        lane.until(lambda: f"the size in the status of the autoscaler is {lane.target(GROUP)}", lambda: lane.target(GROUP) == 0, 30)
    return f"after {took:.1f} s; in the ledger the server created and deleted {N_MACHINES}"


def forget(lane):
    """The cloud provider deletes the Nodes of the machines that are gone, and no other."""
    took = lane.until(lambda: f"the cloud provider did not delete the Nodes {list(lane.joined())}", lambda: not lane.joined(), 150)
    expect(lane.nodes() == [lane.cluster.node], f"the Nodes are {lane.nodes()}, and {lane.cluster.node} must be left")
    deleted = lane.by("DeletingNode", "cloud-node-lifecycle-controller", "")
    expect(deleted == lane.initialized, f"the cloud provider recorded the deletion of {sorted(deleted)}, and the Nodes were {sorted(lane.initialized)}")
    return f"after {took:.1f} s"


STEPS = (grow, join, initialize, bind, shrink, forget)
# Processes that `--stop` ends, each with its name in the lane and the step before which it ends.
STOPS = {"cloud-provider": ("cloud_provider", join), "server": ("server", shrink)}


def play(lane, stopped):
    """Plays the steps until one fails. Returns True if all passed."""
    for step in STEPS:
        begin = time.monotonic()
        if stopped and step is STOPS[stopped][1]:
            getattr(lane, STOPS[stopped][0]).end()
        try:
            said = step(lane)
        except Failed as failure:
            print(f"FAIL {step.__name__}: {step.__doc__}\n     {failure}", flush=True)
            return False
        print(f"ok   {step.__name__}: {step.__doc__} [{said}; {time.monotonic() - begin:.0f} s]", flush=True)
    return True


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--provider", default="target/release/provider")
    arguments.add_argument("--sim", default="target/release/sim")
    arguments.add_argument("--lab", default="target/release/conformance", metavar="CONFORMANCE", help="program whose `e2e down` deletes the cluster")
    arguments.add_argument("--name", default="autoscaler", help="name of the lab; labs of different names can run at once")
    arguments.add_argument("--image", help="node image; default: kind's public one, else the one that kind/node-image builds")
    arguments.add_argument("--stop", choices=STOPS, help="stop this process before its work, to see that the lane fails")
    given = arguments.parse_args()
    if not engine_answers():
        print(NO_ENGINE)
        return 77
    if not shutil.which("openssl"):
        print(NO_OPENSSL)
        return 77
    end_in_order_on_sigterm()
    begin, passed = time.monotonic(), False
    try:
        with KindCluster(given.name, given.lab, given.image) as cluster, World(given.sim, "sim", 0) as world:
            print(f"ok   kind: a cluster with one node, and a simulated Supervisor [{time.monotonic() - begin:.0f} s]", flush=True)
            lane = Lane(os.environ.get("CA_BINARY"), given.provider, cluster, world)
            try:
                lane.start(GROUPS)
                passed = play(lane, given.stop)
            finally:
                lane.end()
                cluster.keep = world.keep = not passed
    except Failed as failure:
        # The end of the cluster can fail, too.
        passed = False
        print(f"FAIL {failure}")
    print(f"{'all steps passed' if passed else 'not all steps passed'} after {time.monotonic() - begin:.0f} s, with the end of the cluster")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
