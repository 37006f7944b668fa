#!/usr/bin/env python3
"""Stands in for the Cluster Autoscaler, for machines that do not have its binary.

  conformance/real-clients/autoscaler_stand_in.py --client CLIENT --address HOST:PORT --kubeconfig FILE

It makes the calls with a Go client of the newest generation of the protocol (conformance/peers/autoscaler-client), and decides the simple
cases as the autoscaler does. It grows the first group whose template has room for a Pod that the scheduler cannot place, by as many
Nodes as all those Pods need beyond the machines on their way. It taints a Node that runs only Pods of DaemonSets, and then deletes its
machine. It knows requests of CPU and memory, tolerations of taints, and node selectors. It does not drain Nodes, back off, balance groups,
or write events and a status. A Pod with affinity, a spread constraint, or a claim of a volume or device starts no machine.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import time

from kind_cluster import access
from lane import MERGE, NODES
from servers import Failed

LOOP_SECONDS = 1
# Time for which a Node must be empty, and time after the last growth.
UNNEEDED_SECONDS = 3
DELETION_TAINT = "ToBeDeletedByClusterAutoscaler"
UNKNOWN = ("affinity", "topologySpreadConstraints", "resourceClaims")
UNITS = {"": 1, "m": 0.001, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text):
    number, unit = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text)).groups()
    return float(number) * UNITS[unit]


def requests(pod):
    """Returns the requests of a Pod as (CPUs, bytes)."""
    asked = [it.get("resources", {}).get("requests", {}) for it in pod["spec"]["containers"]]
    return tuple(sum(quantity(it.get(name, 0)) for it in asked) for name in ("cpu", "memory"))


def room(node):
    return tuple(quantity(node["status"]["allocatable"][name]) for name in ("cpu", "memory"))


def tolerates(pod, taint):
    return taint["effect"] == "PreferNoSchedule" or any(
        it.get("key", taint["key"]) == taint["key"] and it.get("effect", taint["effect"]) == taint["effect"]
        and (it.get("operator") == "Exists" or it.get("value", "") == taint.get("value", ""))
        for it in pod["spec"].get("tolerations", []))


def is_placed_by(pod, node):
    """True if the template's Node has the labels that the Pod selects, and no taint that the Pod does not tolerate."""
    labels = node["metadata"].get("labels", {})
    return (all(labels.get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())
            and all(tolerates(pod, it) for it in node["spec"].get("taints", [])))


def nodes_for(pods, node):
    """Returns the number of such Nodes that the Pods need, first fit. A Pod that does not fit an empty one needs none."""
    free = []
    for pod in pods:
        asked, empty = requests(pod), room(node)
        if not is_placed_by(pod, node) or any(want > has for want, has in zip(asked, empty)):
            continue
        place = next((n for n, rest in enumerate(free) if all(want <= has for want, has in zip(asked, rest))), len(free))
        if place == len(free):
            free.append(empty)
        free[place] = tuple(has - want for want, has in zip(asked, free[place]))
    return len(free)


def is_unschedulable(pod):
    """True if the scheduler found no Node for the Pod, and this script knows all its conditions for one."""
    spec = pod["spec"]
    unknown = any(spec.get(it) for it in UNKNOWN) or any("persistentVolumeClaim" in it or "ephemeral" in it for it in spec.get("volumes", []))
    return (not spec.get("nodeName") and "deletionTimestamp" not in pod["metadata"] and not unknown
            and any((it["type"], it["status"], it.get("reason")) == ("PodScheduled", "False", "Unschedulable")
                    for it in pod["status"].get("conditions", [])))


def needs_node(pod):
    """True if the Pod keeps its Node from deletion."""
    owners = [it["kind"] for it in pod["metadata"].get("ownerReferences", [])]
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and "DaemonSet" not in owners and "Node" not in owners


def say(text):
    print(f"{datetime.datetime.now(datetime.timezone.utc):%H:%M:%S} {text}", flush=True)


class StandIn:
    """The loop, with what it remembers between rounds."""

    def __init__(self, client, address, api):
        self.client, self.address, self.api = client, address, api
        self.empty_since = {}
        self.grown = 0.0

    def call(self, method, *words):
        done = subprocess.run([self.client, "--address", self.address, "call", method, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(done.stderr.strip())
        return json.loads(done.stdout)

    def step(self):
        self.call("Refresh")
        groups = {it["id"]: it for it in self.call("NodeGroups")}
        pods = self.api.must("GET", "/api/v1/pods")["items"]
        members = {}
        for node in self.api.must("GET", NODES)["items"]:
            group = self.call("NodeGroupForNode", node["metadata"]["name"], node["spec"].get("providerID", ""))
            if group:
                members.setdefault(group, []).append(node)
        sizes = {group: self.call("NodeGroupTargetSize", group) for group in groups}
        pending = [it for it in pods if is_unschedulable(it)]
        used = {it["spec"].get("nodeName") for it in pods if needs_node(it)}
        self.grow(groups, sizes, members, pending, used)
        if pending:
            # They may fit a Node that looks empty.
            self.empty_since.clear()
            return
        for group, nodes in members.items():
            self.shrink(group, sizes[group] - groups[group].get("minSize", 0), nodes, used)

    def grow(self, groups, sizes, members, pending, used):
        for group in groups if pending else ():
            template = self.call("NodeGroupTemplateNodeInfo", group)
            # A machine on its way has room, and so has a Node whose Pods the scheduler has not bound yet.
            coming = sizes[group] - sum(it["metadata"]["name"] in used for it in members.get(group, []))
            delta = min(nodes_for(pending, template) - coming, groups[group]["maxSize"] - sizes[group])
            if delta > 0:
                say(f"{len(pending)} Pods are unschedulable: increasing {group} by {delta} from {sizes[group]}")
                self.call("NodeGroupIncreaseSize", group, delta)
                self.grown = time.monotonic()
            if delta > 0 or coming:
                return

    def shrink(self, group, spare, nodes, used):
        now = time.monotonic()
        for node in nodes:
            name = node["metadata"]["name"]
            # A Node with a taint is not ready, waits for the cloud provider, or is being deleted.
            if name in used or node["spec"].get("taints"):
                self.empty_since.pop(name, None)
            elif now - max(self.empty_since.setdefault(name, now), self.grown) > UNNEEDED_SECONDS and spare > 0:
                self.delete(group, node)
                spare -= 1

    def delete(self, group, node):
        """Taints a Node, so that no Pod is bound to it any more, and deletes its machine. Takes the taint back if the server refuses."""
        name = node["metadata"]["name"]
        say(f"Node {name} is empty: deleting its machine from {group}")
        taint = {"key": DELETION_TAINT, "value": str(int(time.time())), "effect": "NoSchedule"}
        self.api.must("PATCH", f"{NODES}/{name}", {"spec": {"taints": [taint]}}, MERGE)
        try:
            self.call("NodeGroupDeleteNodes", group, name, node["spec"]["providerID"])
        except Failed:
            self.api.must("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}}, MERGE)
            raise


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--client", required=True, help="path of the program autoscaler-client")
    arguments.add_argument("--address", required=True, help="address of the server")
    arguments.add_argument("--kubeconfig", required=True, type=pathlib.Path, help="kubeconfig of the cluster, with a client certificate")
    given = arguments.parse_args()
    stand_in = StandIn(given.client, given.address, access("the cluster", given.kubeconfig))
    while True:
        try:
            stand_in.step()
        except (Failed, OSError) as failure:
            say(f"loop failed; trying again: {failure}")
        time.sleep(LOOP_SECONDS)


if __name__ == "__main__":
    main()
