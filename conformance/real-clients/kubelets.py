#!/usr/bin/env python3
"""Writes Nodes in place of kubelets, and of the controller that notices a silent kubelet, because a real cluster here has neither.

  kubelets.py register              creates a Node for each machine of the sim, with the taint for uninitialized nodes
  kubelets.py report NODE STATUS    sets the condition Ready of a Node to True, False or Unknown
"""
import os
import sys
import uuid

import asking

NODES = os.environ["CLUSTER"] + "/api/v1/nodes"


def ready(status):
    return {"type": "Ready", "status": status, "reason": "KubeletReady" if status == "True" else "NodeStatusUnknown"}


def register(machine):
    name = machine["name"]
    # The guest sees the first three groups of the UUID in the other byte order.
    system = str(uuid.UUID(bytes=uuid.UUID(machine["uuid"]).bytes_le))
    asking.ask("POST", NODES, {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
        "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]},
        "status": {"addresses": [{"type": "Hostname", "address": name}], "conditions": [ready("True")],
                   "nodeInfo": {"systemUUID": system, **dict.fromkeys((
                       "machineID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
                       "kubeProxyVersion", "operatingSystem", "architecture"), "")}}})


def main():
    if sys.argv[1:] == ["register"]:
        for machine in asking.ask("GET", os.environ["SIM_ADMIN"] + "/world")["machines"]:
            register(machine)
    elif len(sys.argv) == 4 and sys.argv[1] == "report":
        node, status = sys.argv[2:]
        patch = {"status": {"conditions": [ready(status)]}}
        asking.ask("PATCH", f"{NODES}/{node}/status", patch, "application/strategic-merge-patch+json")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
