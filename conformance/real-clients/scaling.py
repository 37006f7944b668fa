"""Lane of the real Cluster Autoscaler with our server for it over the simulated Supervisor, in which VM Operator makes the machines.

A machine that the Supervisor shows with an address registers as a Node with its provider ID. The Node of a machine that is gone is
deleted, as a cloud controller manager does. Needs only Python's standard library.
"""
import collections
import re
import shlex
import ssl
import urllib.request
from pathlib import Path

import lane
from lane import NODES
from ports import free_port
from servers import recorded

# Resources that a Node of each group has, as its class says.
SIZES = {"best-effort-small": ("2", "4Gi"), "best-effort-large": ("4", "16Gi")}
GROUP_LABEL = "vsphere.cloud-provider/node-group"


def machines_path(world):
    return f"/apis/vmoperator.vmware.com/v1alpha5/namespaces/{world.namespace}/virtualmachines"


class Kubelets(lane.Kubelets):
    """Plays the kubelets of all VirtualMachines, and the controller that deletes the Nodes of machines that are gone."""

    def __init__(self, cluster, world):
        super().__init__(cluster)
        self.world = world

    def step(self):
        machines = {it["metadata"]["name"]: it for it in self.world.supervisor.must("GET", machines_path(self.world))["items"]}
        nodes = self.node_names()
        for name, machine in machines.items():
            status = machine.get("status", {})
            if self.joins and name not in nodes and status.get("network", {}).get("primaryIP4") and "deletionTimestamp" not in machine["metadata"]:
                cpu, memory = SIZES[machine["spec"]["className"]]
                self.register(name, "vsphere://" + machine["spec"]["biosUUID"],
                              {"node.kubernetes.io/instance-type": machine["spec"]["className"]}, {"cpu": cpu, "memory": memory})
                nodes.add(name)
        for name in nodes - set(machines):
            if not name.startswith("foreign-"):
                self.cluster.ask("DELETE", f"{NODES}/{name}")
        self.run_pods(nodes)


class Lane(lane.Lane):
    """The cluster, the server and the autoscaler of the lane."""
    patience = 60  # seconds until Pods run for which machines are made
    room = 7  # Pods that fit three small machines and two large ones

    def __init__(self, binary, provider, cluster, world):
        super().__init__(cluster, Kubelets(cluster, world))
        self.world, self.provider, self.binary = world, provider, binary
        self.groups = self.folder / "groups.yaml"
        self.port, self.secure = free_port(), free_port()

    def start(self, groups):
        """Starts everything except the autoscaler."""
        self.groups.write_text(groups)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap"}, "stringData": {"user-data": "#cloud-config"}}
        self.world.supervisor.must("POST", f"/api/v1/namespaces/{self.world.namespace}/secrets", secret)
        self.start_cluster()
        # A kubeconfig whose token is in a file with a newline at its end, as people write it.
        token = self.folder / "supervisor.token"
        token.write_text(self.world.supervisor.token + "\n")
        text = Path(self.world.known["SIM_SUPERVISOR_KUBECONFIG"]).read_text()
        supervisor = self.folder / "supervisor.kubeconfig"
        supervisor.write_text(re.sub(r"token: \S+", f"tokenFile: {token}", text))
        self.server = self.process("server", [
            self.provider, "autoscaler", "--groups", self.groups, "--supervisor-kubeconfig", supervisor,
            "--namespace", self.world.namespace, "--listen", f"127.0.0.1:{self.port}", "--v", "4", "--bind-address", "127.0.0.1",
            "--secure-port", self.secure, "--authorization-always-allow-paths", "/metrics"])
        self.grpc_autoscaler(self.binary, self.address())

    def address(self):
        """Returns the address to which the autoscaler connects."""
        return f"127.0.0.1:{self.port}"

    def bootstrap(self, join):
        """Makes new machines run this command in their user data."""
        path = f"/api/v1/namespaces/{self.world.namespace}/secrets/bootstrap"
        self.world.supervisor.must("PATCH", path, {"stringData": {"user-data": f"#cloud-config\nruncmd:\n- {join}\n"}}, lane.MERGE)

    def start_cloud_provider(self, *flags):
        """Starts our cloud provider in Supervisor mode."""
        config = self.folder / "vsphere.conf"
        config.touch()
        self.cloud_provider = self.process("ccm", [
            self.provider, "--cloud-provider=vsphere-paravirtual", f"--cloud-config={config}",
            *shlex.split(self.world.known["SIM_SUPERVISOR_FLAGS"]), f"--kubeconfig={self.cluster.kubeconfig}",
            "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", "--node-monitor-period=1s", "--v=2", *flags])

    # ---- what a scenario does

    def pods(self, name, replicas, cpu="1500m", anywhere=False, memory="2Gi"):
        """Creates a ReplicaSet, or changes the number of its Pods. They need machines of the group `small`, or any machine. By default one Pod
        fills a small machine, and two fill the processors, but not the memory, of a large one, so that the autoscaler prefers small ones."""
        selector = {} if anywhere else {"node.kubernetes.io/instance-type": "best-effort-small"}
        self.replica_set(name, replicas, {"resources": {"requests": {"cpu": cpu, "memory": memory}}}, nodeSelector=selector)

    def operator(self, reconciles):
        """Makes VM Operator make and destroy machines, or not."""
        self.world.happen({"vmoperator.set": {"reconciles": reconciles}})

    def slow_deletion(self):
        """Makes the next deletion of a machine take longer than anyone waits, until `operator(True)`."""
        self.operator(False)

    def reset(self):
        """Removes all Pods and machines, after a scenario that failed."""
        self.operator(True)
        if self.server.process.poll() is not None:
            self.server.start()
        self.no_pods()
        self.until("machines are left", lambda: not self.machines(), 120)

    # ---- what a scenario looks at

    def machines(self, group=None):
        """Returns the names of the VirtualMachines of a group that are not being deleted."""
        items = self.world.supervisor.must("GET", machines_path(self.world))["items"]
        return sorted(it["metadata"]["name"] for it in items if "deletionTimestamp" not in it["metadata"]
                      and group in (None, it["metadata"]["labels"].get(GROUP_LABEL)))

    def changes(self):
        """Returns the numbers of VirtualMachines that were created and deleted, by the ledger, as {(verb, program): number}."""
        return collections.Counter((verb, agent.partition("/")[0]) for agent, verb, resource, _, status in recorded(self.world.admin, "k8s.supervisor")
                                   if resource == "virtualmachines" and status < 300 and verb in ("create", "delete"))

    def rpcs(self):
        """Returns the numbers of requests of the server to the Supervisor, and of calls to the server by method, since its start."""
        tls = ssl._create_unverified_context()  # pylint: disable=protected-access
        with urllib.request.urlopen(f"https://127.0.0.1:{self.secure}/metrics", timeout=20, context=tls) as answer:
            text = answer.read().decode()
        rpcs = {}
        for method, n in re.findall(r'^grpc_server_handled_total\{[^}]*grpc_method="(\w+)"[^}]*\} (\d+)$', text, re.M):
            rpcs[method] = rpcs.get(method, 0) + int(n)
        return sum(map(int, re.findall(r"^rest_client_requests_total\{.*\} (\d+)$", text, re.M))), rpcs

    def state(self):
        return {"machines": self.machines()}
