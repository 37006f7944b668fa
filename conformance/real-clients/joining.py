"""Plays the kubelets of simulated machines that join a real cluster by `kubeadm join` in their user data.

Such a kubelet has no rights but those that the cluster gives it: it trusts the cluster by the hash of its authority, gets a client
certificate for its bootstrap token, and registers, renews its lease and runs its Pods as the user `system:node:NAME`. It has no containers:
a Pod that is bound to its Node counts as running. Needs openssl for the key and the request of the certificate.
"""
import base64
import datetime
import hashlib
import re
import ssl
import subprocess
import uuid

import lane
from lane import MERGE, NODES, STRATEGIC
from scaling import SIZES, machines_path
from servers import Api, Failed

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
USER = "system:node:"
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
# Real kubelets renew their leases after a quarter of this time.
LEASE_SECONDS = 40


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def stamp(at, places="seconds"):
    return at.isoformat(timespec=places).replace("+00:00", "Z")


def openssl(*words, given=None):
    done = subprocess.run(["openssl", *map(str, words)], input=given, capture_output=True, check=False)
    if done.returncode:
        raise Failed(f"openssl {words[0]}: {done.stderr.decode()}")
    return done.stdout


def create(api, path, it):
    """Creates an object, unless an earlier attempt, whose answer was lost, has created it."""
    status, answer = api.ask("POST", path, it)
    if status >= 300 and status != 409:
        raise Failed(f"{api.name}: POST {path}: {status} {answer.get('message', answer)}")


class Join:
    """The words of `kubeadm join` in user data."""

    def __init__(self, user_data):
        found = re.search(r"kubeadm join (\S+) --token (\S+) --discovery-token-ca-cert-hash sha256:([0-9a-f]{64})", user_data)
        if not found:
            raise Failed(f"the user data has no `kubeadm join` with address, token and hash: {user_data!r}")
        self.address, self.token, self.hash = found.groups()

    def authority(self):
        """Returns the certificate of the cluster's authority. Raises Failed if its key is not the one of the hash."""
        stranger = Api(self.address, f"https://{self.address}")
        info = stranger.must("GET", "/api/v1/namespaces/kube-public/configmaps/cluster-info")["data"]["kubeconfig"]
        authority = base64.b64decode(re.search(r"certificate-authority-data: (\S+)", info).group(1))
        key = openssl("pkey", "-pubin", "-outform", "DER", given=openssl("x509", "-noout", "-pubkey", given=authority))
        if hashlib.sha256(key).hexdigest() != self.hash:
            raise Failed(f"{self.address}: the authority of the cluster is not the one of --discovery-token-ca-cert-hash sha256:{self.hash}")
        return authority.decode()


class Kubelet:
    """The kubelet of one machine."""

    def __init__(self, machine, folder):
        self.name, self.uuid = machine["metadata"]["name"], uuid.UUID(machine["spec"]["biosUUID"])
        self.size = SIZES[machine["spec"]["className"]]
        self.key, self.certificate = folder / f"{self.name}.key", folder / f"{self.name}.crt"
        self.tls = self.request = self.api = self.renewed = None

    def step(self, user_data):
        """Goes on to join the cluster, or renews the lease and runs the Pods. A step that failed is repeated, and nothing is requested twice."""
        if self.api is None:
            self.join(Join(user_data))
            return
        if (now() - self.renewed).total_seconds() > LEASE_SECONDS / 4:
            self.renewed = now()
            self.api.must("PATCH", f"{LEASES}/{self.name}", {"spec": {"renewTime": stamp(self.renewed, "microseconds")}}, MERGE)
        self.run_pods()

    def join(self, join):
        url = f"https://{join.address}"
        if self.tls is None:
            self.tls = ssl.create_default_context(cadata=join.authority())
        bearer = Api(f"{self.name} with its bootstrap token", url, join.token, self.tls)
        if self.request is None:
            self.request = self.send_request(bearer)
        if not self.certificate.exists():
            signed = bearer.must("GET", f"{REQUESTS}/{self.request}").get("status", {}).get("certificate")
            if not signed:
                return
            self.certificate.write_bytes(base64.b64decode(signed))
        self.tls.load_cert_chain(self.certificate, self.key)
        api = Api(self.name, url, tls=self.tls)
        self.register(api)
        self.api = api

    def send_request(self, api):
        """Requests a client certificate, and returns the name of the request. The cluster approves and signs it later."""
        content = openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                          "-subj", f"/O=system:nodes/CN={USER}{self.name}")
        return api.must("POST", REQUESTS, {
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"generateName": "csr-"},
            "spec": {"request": base64.b64encode(content).decode(), "signerName": SIGNER, "usages": ["digital signature", "client auth"]},
        })["metadata"]["name"]

    def register(self, api):
        """Creates lease and Node as a kubelet with `--cloud-provider=external` does, and reports that it is ready."""
        cpu, memory = self.size
        resources = {"cpu": cpu, "memory": memory, "pods": "110"}
        at = now()
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
                     "lastHeartbeatTime": stamp(at), "lastTransitionTime": stamp(at)}
        # The guest sees the first three groups of the UUID in the other byte order.
        info = {"systemUUID": str(uuid.UUID(bytes=self.uuid.bytes_le)), "operatingSystem": "linux", "architecture": "amd64",
                "kubeletVersion": "v1.36.3", **dict.fromkeys(
                    ("machineID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeProxyVersion"), "")}
        create(api, NODES, {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": {
                "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
            "spec": {"taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [condition], "nodeInfo": info,
                       "addresses": [{"type": "Hostname", "address": self.name}]}})
        create(api, LEASES, {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self.name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": stamp(at, "microseconds")}})
        self.renewed = at

    def run_pods(self):
        """Reports the Pods that are bound to this Node as running, and ends those that are being deleted."""
        for pod in self.api.must("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")["items"]:
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            if "deletionTimestamp" in metadata:
                self.api.ask("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
            elif pod["status"].get("phase") == "Pending":
                self.api.must("PATCH", path + "/status", {"status": {"phase": "Running", "startTime": stamp(now()), "conditions": [
                    {"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]}}, STRATEGIC)


class Kubelets(lane.Kubelets):
    """Starts a kubelet in each VirtualMachine of the Supervisor that runs and has an address. The kubelet of a machine that is gone is silent."""

    def __init__(self, cluster, world):
        super().__init__(cluster)
        self.world, self.running = world, {}
        self.user_data = {}

    def step(self):
        machines = {it["metadata"]["name"]: it for it in self.world.supervisor.must("GET", machines_path(self.world))["items"]}
        for name in set(self.running) - set(machines):
            del self.running[name]
        for name, machine in machines.items():
            status = machine.get("status", {})
            if status.get("powerState") != "PoweredOn" or not status.get("network", {}).get("primaryIP4"):
                self.running.pop(name, None)
                continue
            kubelet = self.running.setdefault(name, Kubelet(machine, self.cluster.dir))
            kubelet.step(self.user_data_of(machine))

    def user_data_of(self, machine):
        """Returns the user data of a machine from the Secret that its object names. The guest reads it once."""
        name = machine["metadata"]["name"]
        if name not in self.user_data:
            reference = machine["spec"]["bootstrap"]["cloudInit"]["rawCloudConfig"]
            path = f"/api/v1/namespaces/{self.world.namespace}/secrets/{reference['name']}"
            text = self.world.supervisor.must("GET", path)["data"][reference["key"]]
            self.user_data[name] = base64.b64decode(text).decode()
        return self.user_data[name]
