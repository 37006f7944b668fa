"""Base of the lanes of the real Cluster Autoscaler: a real cluster with scheduler and controller manager, the autoscaler, the kubelets,
which this module plays, and the objects by which a scenario is judged.

A lane says when a machine becomes a Node (`Kubelets.step`). The kubelets then run the Pods that the scheduler binds to the Node.
Needs only Python's standard library.
"""
import json
import os
import re
import signal
import subprocess
import threading
import time
import traceback

from ports import free_port
from servers import Failed, built, wait_until

NAMESPACE = "default"
NODES, PODS = "/api/v1/nodes", f"/api/v1/namespaces/{NAMESPACE}/pods"
REPLICA_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
# Has the autoscaler count a Node as not started until the cloud provider has initialized it.
STARTUP_TAINT = "--startup-taint=node.cloudprovider.kubernetes.io/uninitialized"
# Short times, so that a cycle takes half a minute; the lanes are about the calls, not about the waits between them.
SHORT_TIMES = (
    "--scan-interval=1s", "--leader-elect=false", "--scale-down-delay-after-add=5s", "--scale-down-unneeded-time=3s",
    "--scale-down-unready-time=3s", "--scale-down-delay-after-failure=1s", "--unremovable-node-recheck-timeout=1s",
    "--node-delete-delay-after-taint=0s", "--max-node-provision-time=20s", "--initial-node-group-backoff-duration=10s",
    "--max-node-group-backoff-duration=10s", "--kube-client-qps=100", "--kube-client-burst=200", "--expander=least-waste",
    "--frequent-loops-enabled=false", "--v=4")


def expect(holds, what):
    if not holds:
        raise Failed(what)


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
    """Plays the kubelets of all machines. A subclass registers and deletes the Nodes in `step`, several times per second."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.joins = True  # False: no new machine registers
        self.stopping = threading.Event()
        self.trouble = None

    def run(self):
        while not self.stopping.wait(0.3):
            try:
                self.step()
            except (Failed, OSError):
                self.trouble = traceback.format_exc()

    @property
    def error(self):
        """The last line of the last failure; None if every step succeeded."""
        return self.trouble and self.trouble.strip().splitlines()[-1]

    def step(self):
        raise NotImplementedError

    def node_names(self):
        return {it["metadata"]["name"] for it in self.cluster.must("GET", NODES)["items"]}

    def register(self, name, provider_id, labels, resources, annotations=None, taints=None):
        """Creates a ready Node with these labels, as a kubelet does, and with those that each Node has."""
        resources = {"pods": "110", **resources}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **labels}
        self.cluster.must("POST", NODES, {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
            "spec": {"providerID": provider_id},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady"}]}})
        # The API server taints each new Node as not ready. In a cluster the node lifecycle controller removes the taint.
        self.cluster.must("PATCH", f"{NODES}/{name}", {"spec": {"taints": taints}}, MERGE)

    def run_pods(self, nodes):
        for pod in self.cluster.must("GET", PODS)["items"]:
            metadata, path = pod["metadata"], f"{PODS}/{pod['metadata']['name']}"
            node = pod["spec"].get("nodeName")
            if "deletionTimestamp" in metadata or (node and node not in nodes):
                self.cluster.ask("DELETE", path, {"gracePeriodSeconds": 0})
            elif node and pod["status"].get("phase") == "Pending":
                self.cluster.ask("PATCH", path + "/status", {"status": {"phase": "Running", "conditions": [
                    {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]}}, STRATEGIC)

    def end(self):
        self.stopping.set()
        if self.is_alive():
            self.join(20)


class Lane:
    """The cluster, the autoscaler and the kubelets of a lane."""

    def __init__(self, cluster, kubelets):
        self.cluster, self.folder, self.kubelets = cluster, cluster.dir, kubelets
        self.processes = []
        self.health = free_port()

    def process(self, name, command, env=None):
        started = Process(name, self.folder, command, env).start()
        self.processes.append(started)
        return started

    def start_cluster(self):
        """Starts the scheduler, the controller manager and the kubelets."""
        kubeconfig = self.cluster.kubeconfig
        self.process("scheduler", [built("kube-scheduler"), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"])
        self.process("controllers", [
            built("kube-controller-manager"), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0",
            "--controllers=replicaset-controller,job-controller,garbage-collector-controller,disruption-controller"])
        self.kubelets.start()

    def autoscaler_process(self, binary, *flags):
        """Returns the autoscaler for the cluster, which is not started."""
        self.autoscaler = Process("autoscaler", self.folder, [
            binary, *flags, f"--kubeconfig={self.cluster.kubeconfig}", *SHORT_TIMES, f"--address=127.0.0.1:{self.health}"])
        self.processes.append(self.autoscaler)
        return self.autoscaler

    def grpc_autoscaler(self, binary, address):
        """Returns the autoscaler that asks our server at this address for its groups. The autoscaler is not started."""
        config = self.folder / "cloud-config.yaml"
        config.write_text(f"address: {address}\n")
        return self.autoscaler_process(binary, "--cloud-provider=externalgrpc", f"--cloud-config={config}", STARTUP_TAINT)

    def provision_time(self, seconds):
        """Sets the time that the autoscaler gives to a new machine. Restarts the autoscaler if that changes it."""
        words = [it for it in self.autoscaler.command if not str(it).startswith("--max-node-provision-time")]
        words.append(f"--max-node-provision-time={seconds}")
        if words != self.autoscaler.command or self.autoscaler.process is None:
            self.autoscaler.end()
            self.autoscaler.command = words
            self.autoscaler.start()

    def play(self, scenario):
        """Plays a scenario and prints a line about it. Returns True if it passed."""
        begin = time.monotonic()
        try:
            said = scenario(self)
        except Failed as failure:
            print(f"FAIL {scenario.__doc__}\n     {failure}", flush=True)
            self.reset()
            return False
        print(f"ok   {scenario.__doc__} [{said}; {time.monotonic() - begin:.0f} s]", flush=True)
        return True

    def reset(self):
        raise NotImplementedError

    def end(self):
        self.kubelets.end()
        for it in reversed(self.processes):
            it.end()

    # ---- what a scenario does

    def replica_set(self, name, replicas, container, **spec):
        """Creates a ReplicaSet, or changes the number of its Pods."""
        status, _ = self.cluster.ask("PATCH", f"{REPLICA_SETS}/{name}/scale", {"spec": {"replicas": replicas}}, MERGE)
        if status == 404:
            self.cluster.must("POST", REPLICA_SETS, {
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                         "template": {"metadata": {"labels": {"app": name}},
                                      "spec": {"containers": [{"name": "it", "image": "none", **container}], **spec}}}})

    def no_pods(self):
        """Removes all Pods."""
        for it in self.cluster.must("GET", REPLICA_SETS)["items"]:
            self.replica_set(it["metadata"]["name"], 0, {})

    # ---- what a scenario looks at

    def nodes(self):
        return sorted(it["metadata"]["name"] for it in self.cluster.must("GET", NODES)["items"])

    def running(self, app):
        pods = self.cluster.must("GET", f"{PODS}?labelSelector=app%3D{app}")["items"]
        return sum(it["status"].get("phase") == "Running" and "deletionTimestamp" not in it["metadata"] for it in pods)

    def status(self):
        """Returns the status ConfigMap of the autoscaler; None if there is none."""
        status, it = self.cluster.ask("GET", STATUS)
        return it if status == 200 else None

    def group(self, name):
        """Returns the part of the autoscaler's status that is about a group; an empty text if the status does not have the group."""
        it = self.status()
        for entry in re.split(r"\n- ", it["data"]["status"].partition("nodeGroups:")[2]) if it else []:
            named = re.search(r"^\s*name: (\S+)$", entry, re.M)
            if named and named.group(1).endswith("/" + name):
                return entry
        return ""

    def target(self, group):
        """Returns the size of a group in the status of the autoscaler; None if the status does not have the group."""
        entry = self.group(group)
        size = re.search(r"cloudProviderTarget: (\d+)", entry)
        return (int(size.group(1)) if size else 0) if entry else None

    def events(self, reason, of=""):
        """Returns the messages of the events with this reason, of objects with this prefix of their names."""
        return [it.get("message", "") for it in self.cluster.must("GET", "/api/v1/events")["items"]
                if it["reason"] == reason and it["involvedObject"].get("name", "").startswith(of)]

    def found(self, what, holds, seconds=60):
        """Waits until `holds` returns a true value, and returns this value. Raises Failed with the text `what`, which may be a function, and the
        ends of the logs."""
        return wait_until(lambda: f"{what() if callable(what) else what}\n{self.evidence()}", holds, seconds, 0.2)

    def until(self, what, holds, seconds=60):
        """Waits as `found` does, and returns the seconds that it took."""
        begin = time.monotonic()
        self.found(what, holds, seconds)
        return time.monotonic() - begin

    def always(self, what, holds, seconds):
        """Raises Failed if a condition ceases to hold within the time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not holds():
                raise Failed(f"{what}\n{self.evidence()}")
            time.sleep(0.3)

    def evidence(self):
        logs = [(it.name, it.log().splitlines()[-12:]) for it in self.processes if it.name not in ("scheduler", "controllers")]
        text = "".join(f"{name}: {line[:300]}\n" for name, lines in logs for line in lines)
        return f"{json.dumps({**self.state(), 'nodes': self.nodes(), 'trouble': self.kubelets.trouble})}\n{text}"

    def state(self):
        """Returns the state of the machines, for a person who reads why a scenario failed."""
        return {}
