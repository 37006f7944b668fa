"""Lane of the Cluster Autoscaler with a kind cluster: our server and cloud provider over the simulated Supervisor, and the autoscaler, or
autoscaler_stand_in.py in its place. joining.py plays the kubelets of the machines.
"""
import base64
import re
import sys

import scaling
from joining import REQUESTS, SIGNER, UNINITIALIZED, USER, Kubelets, openssl
from lane import NODES, PODS, Process
from servers import HERE, built

APP = "web"


class Lane(scaling.Lane):
    """The kind cluster, the simulated machines, our server and cloud provider, and the autoscaler."""

    def __init__(self, binary, provider, cluster, world):
        super().__init__(binary, provider, cluster, world)
        self.kubelets = Kubelets(cluster, world)

    def autoscaler_process(self, binary, *flags):
        if binary:
            return super().autoscaler_process(binary, *flags)
        self.autoscaler = Process("stand-in", self.folder, [
            sys.executable, HERE / "autoscaler_stand_in.py", "--client", built("autoscaler-client"), "--address", f"127.0.0.1:{self.port}",
            "--kubeconfig", self.cluster.kubeconfig])
        self.processes.append(self.autoscaler)
        return self.autoscaler

    def start_cluster(self):
        # kind has started the scheduler and the controller manager.
        self.kubelets.start()

    def start(self, groups):
        super().start(groups)
        command = self.cluster.join_command()
        self.token = re.search(r"--token (\w+)", command).group(1)
        self.bootstrap(command)
        self.start_cloud_provider()
        if self.binary:
            # The kubelet of a machine starts about half a minute after the machine was asked for.
            self.provision_time("120s")
        else:
            self.autoscaler.start()

    # ---- what a scenario looks at

    def pending(self):
        """Returns the Pods for which the scheduler found no Node."""
        pods = self.cluster.must("GET", f"{PODS}?labelSelector=app%3D{APP}")["items"]
        return [it["metadata"]["name"] for it in pods if any(
            (each["type"], each["status"], each.get("reason")) == ("PodScheduled", "False", "Unschedulable")
            for each in it["status"].get("conditions", []))]

    def joined(self):
        """Returns the Nodes of machines by name."""
        return {it["metadata"]["name"]: it for it in self.cluster.must("GET", NODES)["items"] if it["metadata"]["name"] != self.cluster.node}

    def uninitialized(self):
        """Returns for each Node of a machine that the cloud provider has not initialized what it lacks."""
        machines = {it["metadata"]["name"]: it for it in self.world.supervisor.must("GET", scaling.machines_path(self.world))["items"]}
        return {name: lacks for name, node in self.joined().items() if (lacks := lacks_of(node, machines.get(name)))}

    def certified(self):
        """Returns the Nodes for whose kubelets the cluster approved and signed a certificate that the bootstrap token requested."""
        return sorted(node_of(it["status"]["certificate"]) for it in self.cluster.must("GET", REQUESTS)["items"]
                      if it["spec"]["signerName"] == SIGNER and it["spec"]["username"] == f"system:bootstrap:{self.token}"
                      and it["status"].get("certificate") and "Auto approving" in str(it["status"].get("conditions")))

    def by(self, reason, source, of):
        """Returns the objects with this prefix of which this component recorded an event with this reason."""
        return {it["involvedObject"]["name"] for it in self.cluster.must("GET", "/api/v1/events")["items"]
                if it["reason"] == reason and source in (it.get("reportingComponent"), it.get("source", {}).get("component"))
                and it["involvedObject"]["name"].startswith(of)}

    def state(self):
        nodes = {name: node["spec"].get("taints") for name, node in self.joined().items()}
        return {"machines": self.machines(), "taints": nodes, "pending": self.pending(), "running": self.running(APP)}


def node_of(certificate):
    """Returns the name of the Node in the subject of a certificate."""
    return re.search(USER + r"(\S+)", openssl("x509", "-noout", "-subject", given=base64.b64decode(certificate)).decode()).group(1)


def lacks_of(node, machine):
    """Returns what a Node lacks that the cloud provider gives it."""
    if machine is None:
        return ["machine"]
    addresses = [it["address"] for it in node["status"].get("addresses", []) if it["type"] == "InternalIP"]
    lacks = []
    if node["spec"].get("providerID") != "vsphere://" + machine["spec"]["biosUUID"]:
        lacks.append(f"provider ID (has {node['spec'].get('providerID')})")
    if UNINITIALIZED in [it["key"] for it in node["spec"].get("taints", [])]:
        lacks.append(f"removal of the taint {UNINITIALIZED}")
    if addresses != [machine["status"]["network"]["primaryIP4"]]:
        lacks.append(f"InternalIP {machine['status']['network']['primaryIP4']} (has {addresses})")
    return lacks
