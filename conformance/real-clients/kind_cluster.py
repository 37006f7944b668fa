"""Makes a cluster of one real node with kind, for a lane that adds simulated machines to it.

The control plane, the scheduler, the controller manager and the kubelet of the node are real. The cluster is kind's `lab-NAME`, so that
`conformance e2e down --name NAME` also removes the remains of a killed run. Needs a Docker engine.
"""
import base64
import fcntl
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import tempfile

from lane import NODES
from servers import ROOT, Api, Failed, built, wait_until

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "vsphere-lab"
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def run(*command, seconds=600):
    """Runs a command and returns its output. Raises Failed with the end of what it printed, also if it takes longer than `seconds`."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{' '.join(map(str, command))}: not done within {seconds} s") from late
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout.strip()


def engine_answers():
    return shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def node_image():
    """Returns kind's public node image if the engine has it or can pull it, else the one that kind/node-image builds."""
    version = re.search(r"^require k8s.io/kubernetes (\S+)", (ROOT / "conformance/peers/kubernetes/go.mod").read_text(), re.M).group(1)
    public = f"kindest/node:{version}"
    for words in (["image", "inspect"], ["manifest", "inspect"]):
        try:
            run("docker", *words, public, seconds=60)
        except Failed:
            continue
        run("docker", "pull", "-q", public) if words[0] == "manifest" else None
        return public
    return run(ROOT / "kind/node-image/build.sh", seconds=1800)


def access(name, kubeconfig):
    """Returns the API of the cluster in a kubeconfig whose user has a client certificate."""
    text = kubeconfig.read_text()
    parts = {key: base64.b64decode(value) for key, value in re.findall(r"(\S+)-data: (\S+)", text)}
    tls = ssl.create_default_context(cadata=parts["certificate-authority"].decode())
    with tempfile.NamedTemporaryFile() as pem:
        pem.write(parts["client-certificate"] + parts["client-key"])
        pem.flush()
        tls.load_cert_chain(pem.name)
    return Api(name, re.search(r"server: (\S+)", text).group(1), tls=tls)


class KindCluster(Api):
    """A kind cluster with one node, whose administrator this module is. It is deleted at the end of the `with` block."""

    def __init__(self, name, lab, image=None):
        super().__init__("the kind cluster")
        self.lab_name, self.lab, self.image = name, lab, image
        self.node = f"lab-{name}-control-plane"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="real-clients-kind-"))
        self.keep = False  # True if the folder must stay as evidence
        self.kubeconfig = self.dir / "kubeconfig"

    def __enter__(self):
        try:
            self.create()
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, failure, *_):
        if failure or self.keep:
            print(f"files of {self.name} and its clients: {self.dir}", flush=True)
        self.delete()
        if not (failure or self.keep):
            shutil.rmtree(self.dir, ignore_errors=True)

    def delete(self):
        """Deletes the cluster, or what a killed run left of it."""
        run(self.lab, "e2e", "down", "--name", self.lab_name)

    def create(self):
        kind, image = built("kind"), self.image or node_image()
        self.delete()
        with open(network_lock(), "a") as lock:
            # Without the lock the end of another lab could remove the network `kind` meanwhile.
            fcntl.flock(lock, fcntl.LOCK_SH)
            run(kind, "create", "cluster", "--name", f"lab-{self.lab_name}", "--image", image, "--retain", "--config",
                ROOT / "kind/one-node.yaml", "--kubeconfig", self.kubeconfig)
        admin = access(self.name, self.kubeconfig)
        self.url, self.tls = admin.url, admin.tls
        self.settle()

    def settle(self):
        """Restores the taint that kind takes from a single node, and waits until the node and its pods are ready."""
        pods = "/api/v1/namespaces/kube-system/pods"
        wait_until(lambda: f"{self.node} is not ready, or pods of kube-system are not:\n{run('docker', 'logs', '--tail', 5, self.node)}",
                   lambda: all(map(is_ready, self.must("GET", NODES)["items"] + (found := self.must("GET", pods)["items"])))
                   and any("coredns" in it["metadata"]["name"] for it in found), 180, 0.5)
        self.must("PATCH", f"{NODES}/{self.node}", {"spec": {"taints": [CONTROL_PLANE]}}, "application/merge-patch+json")

    def join_command(self):
        """Returns the command that kubeadm prints for a new node, with a new bootstrap token, and the node's address in place of its name, which
        only containers can resolve."""
        address = run("docker", "inspect", "-f", '{{(index .NetworkSettings.Networks "kind").IPAddress}}', self.node)
        return run("docker", "exec", self.node, "kubeadm", "token", "create", "--print-join-command").replace(self.node, address)


def network_lock():
    """Returns the path of the file that processes lock while they need the network `kind`."""
    folder = CACHE / "e2e"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "network.lock"


def is_ready(it):
    return any((each["type"], each["status"]) == ("Ready", "True") for each in it["status"].get("conditions", []))
