"""Programs for the lane of the real Cluster Autoscaler: a real cluster with scheduler and controller manager, our server over the
simulated Supervisor, and the kubelets and the cloud controller of the machines, which this module plays.

A machine that the Supervisor shows with an address registers as a Node with its provider ID, and runs the Pods that the scheduler
binds to it. The Node of a machine that is gone is deleted, as a cloud controller manager does. Needs only Python's standard library.
"""
import json
import os
import re
import signal
import ssl
import subprocess
import threading
import time
import traceback
import urllib.request
from pathlib import Path

from ports import free_port
from servers import Failed, built, wait_until

NAMESPACE = "default"
NODES, PODS = "/api/v1/nodes", f"/api/v1/namespaces/{NAMESPACE}/pods"
STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
STRATEGIC = "application/strategic-merge-patch+json"
# Resources that a Node of each group has, as its class says.
SIZES = {"best-effort-small": ("2", "4Gi"), "best-effort-large": ("4", "16Gi")}
GROUP_LABEL = "vsphere.cloud-provider/node-group"


def machines_path(world):
    return f"/apis/vmoperator.vmware.com/v1alpha5/namespaces/{world.namespace}/virtualmachines"


class Process:
    """A program that a scenario may kill and start again, with a log."""

    def __init__(self, name, folder, command, env=None):
        self.name, self.command, self.env = name, command, env
        self.path = folder / f"{name}.log"
        self.process = None

    def start(self):
        log = open(self.path, "a")
        self.process = subprocess.Popen([str(word) for word in self.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        env={**os.environ, **(self.env or {})})
        return self

    def end(self, how=signal.SIGTERM):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log(self):
        return self.path.read_text(errors="replace")


class Kubelets(threading.Thread):
    """Plays the kubelets of all machines, and the controller that deletes the Nodes of machines that are gone."""

    def __init__(self, cluster, world):
        super().__init__(daemon=True)
        self.cluster, self.world = cluster, world
        self.joins = True  # False: no new machine registers
        self.stopping = threading.Event()
        self.trouble = None

    def run(self):
        while not self.stopping.wait(0.3):
            try:
                self.step()
            except (Failed, OSError):
                self.trouble = traceback.format_exc()

    def step(self):
        machines = {it["metadata"]["name"]: it for it in self.world.supervisor.must("GET", machines_path(self.world))["items"]}
        nodes = {it["metadata"]["name"] for it in self.cluster.must("GET", NODES)["items"]}
        for name, machine in machines.items():
            status = machine.get("status", {})
            if self.joins and name not in nodes and status.get("network", {}).get("primaryIP4") and "deletionTimestamp" not in machine["metadata"]:
                self.register(name, machine)
                nodes.add(name)
        for name in nodes - set(machines):
            if not name.startswith("foreign-"):
                self.cluster.ask("DELETE", f"{NODES}/{name}")
        for pod in self.cluster.must("GET", PODS)["items"]:
            self.run_pod(pod, nodes)

    def register(self, name, machine):
        cpu, memory = SIZES[machine["spec"]["className"]]
        resources = {"cpu": cpu, "memory": memory, "pods": "110"}
        self.cluster.must("POST", NODES, {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": machine["spec"]["className"]}},
            "spec": {"providerID": "vsphere://" + machine["spec"]["biosUUID"]},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady"}]}})
        # The API server taints each new Node as not ready. In a cluster the node lifecycle controller removes the taint.
        self.cluster.must("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")

    def run_pod(self, pod, nodes):
        metadata, path = pod["metadata"], f"{PODS}/{pod['metadata']['name']}"
        node = pod["spec"].get("nodeName")
        if "deletionTimestamp" in metadata or (node and node not in nodes):
            self.cluster.ask("DELETE", path, {"gracePeriodSeconds": 0})
        elif node and pod["status"].get("phase") == "Pending":
            self.cluster.ask("PATCH", path + "/status", {"status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]}}, STRATEGIC)

    def end(self):
        self.stopping.set()
        self.join(20)


class Lane:
    """The cluster, the server and the autoscaler of the lane."""

    def __init__(self, binary, provider, cluster, world):
        self.cluster, self.world, self.folder = cluster, world, cluster.dir
        self.provider, self.binary = provider, binary
        self.kubelets = Kubelets(cluster, world)
        self.processes = []
        self.groups = self.folder / "groups.yaml"
        self.port, self.health, self.secure = free_port(), free_port(), free_port()

    def process(self, name, command, env=None):
        started = Process(name, self.folder, command, env).start()
        self.processes.append(started)
        return started

    def start(self, groups):
        """Starts everything except the autoscaler."""
        self.groups.write_text(groups)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap"}, "stringData": {"user-data": "#cloud-config"}}
        self.world.supervisor.must("POST", f"/api/v1/namespaces/{self.world.namespace}/secrets", secret)
        kubeconfig = self.cluster.kubeconfig
        self.process("scheduler", [built("kube-scheduler"), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"])
        self.process("controllers", [
            built("kube-controller-manager"), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0",
            "--controllers=replicaset-controller,job-controller,garbage-collector-controller,disruption-controller"])
        self.kubelets.start()
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
        config = self.folder / "cloud-config.yaml"
        config.write_text(f"address: 127.0.0.1:{self.port}\n")
        # Short times, so that a cycle takes half a minute; the lane is about the calls, not about the waits between them.
        self.autoscaler = Process("autoscaler", self.folder, [
            self.binary, "--cloud-provider=externalgrpc", f"--cloud-config={config}", f"--kubeconfig={kubeconfig}", "--scan-interval=1s",
            "--leader-elect=false", "--scale-down-delay-after-add=5s", "--scale-down-unneeded-time=3s", "--scale-down-unready-time=3s",
            "--scale-down-delay-after-failure=1s", "--unremovable-node-recheck-timeout=1s", "--node-delete-delay-after-taint=0s",
            "--max-node-provision-time=20s", "--initial-node-group-backoff-duration=10s", "--max-node-group-backoff-duration=10s",
            "--kube-client-qps=100", "--kube-client-burst=200", f"--address=127.0.0.1:{self.health}", "--expander=least-waste",
            "--frequent-loops-enabled=false", "--v=4"])
        self.processes.append(self.autoscaler)

    def end(self):
        self.kubelets.end()
        for it in reversed(self.processes):
            it.end()

    # ---- what a scenario does

    def pods(self, name, replicas, cpu="1500m", anywhere=False):
        """Creates a ReplicaSet, or changes the number of its Pods. They need machines of the group `small`, or any machine."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
        status, _ = self.cluster.ask("PATCH", f"{path}/{name}/scale", {"spec": {"replicas": replicas}}, "application/merge-patch+json")
        if status == 404:
            container = {"name": "it", "image": "none", "resources": {"requests": {"cpu": cpu}}}
            selector = {} if anywhere else {"node.kubernetes.io/instance-type": "best-effort-small"}
            self.cluster.must("POST", path, {
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                         "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], "nodeSelector": selector}}}})

    def operator(self, reconciles):
        """Makes VM Operator make and destroy machines, or not."""
        self.world.happen({"vmoperator.set": {"reconciles": reconciles}})

    def reset(self):
        """Removes all Pods and machines, after a scenario that failed."""
        self.operator(True)
        if self.server.process.poll() is not None:
            self.server.start()
        for it in self.cluster.must("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets")["items"]:
            self.pods(it["metadata"]["name"], 0)
        self.until("machines are left", lambda: not self.machines(), 120)

    # ---- what a scenario looks at

    def machines(self, group=None):
        """Returns the names of the VirtualMachines of a group that are not being deleted."""
        items = self.world.supervisor.must("GET", machines_path(self.world))["items"]
        return sorted(it["metadata"]["name"] for it in items if "deletionTimestamp" not in it["metadata"]
                      and group in (None, it["metadata"]["labels"].get(GROUP_LABEL)))

    def nodes(self):
        return sorted(it["metadata"]["name"] for it in self.cluster.must("GET", NODES)["items"])

    def running(self, app):
        pods = self.cluster.must("GET", f"{PODS}?labelSelector=app%3D{app}")["items"]
        return sum(it["status"].get("phase") == "Running" and "deletionTimestamp" not in it["metadata"] for it in pods)

    def target(self, group):
        """Returns the size of a group in the status of the autoscaler; None if the status does not have the group."""
        status, it = self.cluster.ask("GET", STATUS)
        if status != 200:
            return None
        for entry in re.split(r"\n- ", it["data"]["status"].partition("nodeGroups:")[2]):
            name = re.search(r"^\s*name: (\S+)$", entry, re.M)
            size = re.search(r"cloudProviderTarget: (\d+)", entry)
            if name and name.group(1).endswith("/" + group):
                return int(size.group(1)) if size else 0
        return None

    def events(self, reason):
        """Returns the messages of the events with this reason."""
        return [it.get("message", "") for it in self.cluster.must("GET", "/api/v1/events")["items"] if it["reason"] == reason]

    def created(self):
        """Returns the number of VirtualMachines that were ever created."""
        return sum(op == "create virtualmachines" and status == 201 for _, _, op, status in self.world.calls())

    def rpcs(self):
        """Returns the numbers of requests of the server to the Supervisor, and of calls to the server by method, since its start."""
        tls = ssl._create_unverified_context()  # pylint: disable=protected-access
        with urllib.request.urlopen(f"https://127.0.0.1:{self.secure}/metrics", timeout=20, context=tls) as answer:
            text = answer.read().decode()
        rpcs = {}
        for method, n in re.findall(r'^grpc_server_handled_total\{[^}]*grpc_method="(\w+)"[^}]*\} (\d+)$', text, re.M):
            rpcs[method] = rpcs.get(method, 0) + int(n)
        return sum(map(int, re.findall(r"^rest_client_requests_total\{.*\} (\d+)$", text, re.M))), rpcs

    def until(self, what, holds, seconds=60):
        """Waits until a condition holds, and returns the seconds that it took. Raises Failed with the ends of the logs."""
        begin = time.monotonic()
        wait_until(lambda: f"{what}\n{self.evidence()}", holds, seconds, 0.2)
        return time.monotonic() - begin

    def always(self, what, holds, seconds):
        """Raises Failed if a condition ceases to hold within the time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not holds():
                raise Failed(f"{what}\n{self.evidence()}")
            time.sleep(0.3)

    def evidence(self):
        logs = [(it.name, it.log().splitlines()[-12:]) for it in self.processes if it.name in ("server", "autoscaler")]
        text = "".join(f"{name}: {line[:300]}\n" for name, lines in logs for line in lines)
        state = {"machines": self.machines(), "nodes": self.nodes(), "trouble": self.kubelets.trouble}
        return f"{json.dumps(state)}\n{text}"
