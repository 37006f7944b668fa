"""Starts the two API servers for real clients: a real etcd and kube-apiserver, and `sim serve`.

Each server starts empty. At the end of its `with` block it stops, and its folder is removed. If something failed, the folder stays,
with logs and records of requests. `writes` returns the writes of clients, from the real server's audit log or the sim's ledger.
Needs only Python's standard library.
"""
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Failed(Exception):
    """Error for something that a script needs and that did not happen; ends the script."""


def built(name):
    """Returns the path of a peer's binary. Builds the peer if it is not in the cache."""
    answer = subprocess.run([ROOT / "conformance/peers/build.sh", name], stdout=subprocess.PIPE, text=True)
    if answer.returncode:
        sys.exit(answer.returncode)
    return answer.stdout.strip()


def wait_until(what, holds, seconds=60.0, pause=0.05):
    """Calls `holds` again and again until it returns a true value, and returns this value. Raises Failed with the text `what` after
    `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(pause)


def end_in_order_on_sigterm():
    """Has SIGTERM end the script as an error does, so that its processes and folders go."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def audited(path):
    """Yields the writes in an audit log: (user agent, verb, resource, name, status)."""
    for line in pathlib.Path(path).read_text().splitlines():
        it = json.loads(line)
        thing = it["objectRef"]
        resource = "/".join(filter(None, (thing["resource"], thing.get("subresource"))))
        yield it.get("userAgent", ""), it["verb"], resource, thing.get("name", ""), it["responseStatus"]["code"]


def recorded(admin, face="k8s.guest"):
    """Yields the ended writes in the ledger of a sim: (user agent, verb, resource, name, status)."""
    with urllib.request.urlopen(admin + "/ledger?op=@write", timeout=20) as answer:
        for line in answer.read().decode().splitlines():
            it = json.loads(line)
            verb, _, resource = it["op"].partition(" ")
            if it["face"] == face and verb in WRITES and "ended" in it:
                name = it.get("target", {}).get("name", "")
                yield it["client"].get("user_agent", ""), verb, resource, name, it["ended"].get("status")


def token_in(kubeconfig):
    lines = pathlib.Path(kubeconfig).read_text().splitlines()
    return next(line.split()[-1] for line in lines if line.strip().startswith("token:"))


class Api:
    """A Kubernetes API with its URL, and functions that send requests to it. The caller is known by the token, or by the certificate in `tls`."""

    def __init__(self, name, url="", token="", tls=None):
        self.name, self.url, self.token = name, url, token
        self.tls = tls or ssl._create_unverified_context()  # pylint: disable=protected-access

    def ask(self, method, path, body=None, content_type="application/json"):
        """Sends a request and returns the answer as (status, document), also for an error status. A body is a document or text."""
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20, context=self.tls) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, {"message": text.decode(errors="replace")}

    def must(self, method, path, body=None, content_type="application/json"):
        """Sends a request and returns the document of the answer. Raises Failed for an error status."""
        status, answer = self.ask(method, path, body, content_type)
        if status >= 300:
            raise Failed(f"{self.name}: {method} {path}: {status} {answer.get('message', answer)}")
        return answer


class Server(Api):
    """An API server that runs as a process, with the kubeconfig of its administrator."""

    def __init__(self, name):
        super().__init__(name)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"real-clients-{name}-"))
        self.keep = False  # True if the folder must stay as evidence
        self.kubeconfig = self.dir / "kubeconfig"

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if failure or self.keep:
            print(f"files of {self.name} and its clients: {self.dir}", flush=True)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)


class Real(Server):
    """A real kube-apiserver with etcd."""

    def __init__(self, name="real"):
        super().__init__(name)
        self.audit = self.dir / "audit.jsonl"
        self.process = subprocess.Popen(
            [ROOT / "conformance/peers/cluster.sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "CLUSTER_AUDIT": str(self.audit)})
        line = self.process.stdout.readline().split()
        if len(line) < 2:
            raise Failed("the API server did not start; the lines above have the reason")
        self.url, self.token = line[:2]
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "it", "user": {"token": self.token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}))

    def writes(self):
        """Yields every answered write: (user agent, verb, resource, name, status)."""
        return audited(self.audit)


class Sim(Server):
    """The workload cluster of `sim serve`, without machines and with RBAC."""
    faces = ("vcenter", "cluster", "admin")
    variables = ("SIM_CLUSTER", "KUBECONFIG")

    def options(self):
        return ["--vms=0", "--rbac"]

    def __init__(self, binary, name="sim"):
        super().__init__(name)
        env = self.dir / "env"
        log = open(self.dir / "log", "w")
        any_port = [f"--{face}-listen=127.0.0.1:0" for face in self.faces]
        self.process = subprocess.Popen(
            [binary, "serve", f"--env={env}", f"--ledger={self.dir}/ledger.jsonl", *self.options(), *any_port],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: "sim serve:\n" + (self.dir / "log").read_text(),
                   lambda: env.exists() or self.process.poll() is not None, 20)
        if self.process.poll() is not None:
            raise Failed("sim serve ended:\n" + (self.dir / "log").read_text())
        words = (line.removeprefix("export ").split("=", 1) for line in env.read_text().splitlines())
        self.known = {key: value.strip("'") for key, value in words}
        url, kubeconfig = self.variables
        self.url, self.admin = self.known[url], self.known["SIM_ADMIN"]
        shutil.copy(self.known[kubeconfig], self.kubeconfig)
        self.token = token_in(self.kubeconfig)
        self.tls = ssl.create_default_context(cafile=self.known["SIM_CA"])

    def writes(self):
        """Yields every answered write: (user agent, verb, resource, name, status)."""
        return recorded(self.admin)


class Supervisor(Sim):
    """The Supervisor of `sim serve`, with the world of kubectl-supervisor/world.yaml."""
    faces = (*Sim.faces, "supervisor")
    variables = ("SIM_SUPERVISOR", "SIM_SUPERVISOR_KUBECONFIG")

    def options(self):
        return [f"--world={HERE}/kubectl-supervisor/world.yaml", f"--supervisor={self.dir}/mounts"]


class World(Sim):
    """The workload cluster of `sim serve`, without RBAC, and the API of the Supervisor (`supervisor`) that manages its machines."""
    faces = Supervisor.faces

    def __init__(self, binary, name, machines):
        self.machines = machines
        super().__init__(binary, name)
        known = self.known
        self.supervisor = Api(f"{name}'s Supervisor", known["SIM_SUPERVISOR"], token_in(known["SIM_SUPERVISOR_KUBECONFIG"]), self.tls)
        self.namespace = known["SIM_SUPERVISOR_NAMESPACE"]

    def options(self):
        return [f"--vms={self.machines}", "--zones=3", f"--supervisor={self.dir}/mounts"]

    def happen(self, command):
        """Applies a command to the world."""
        self.tell("/world/events", command)

    def tell(self, path, body):
        """Sends a document to the admin port."""
        request = urllib.request.Request(self.admin + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=20):
            pass

    def records(self):
        """Yields the ledger's record of every call."""
        with urllib.request.urlopen(self.admin + "/ledger", timeout=20) as answer:
            for line in answer.read().decode().splitlines():
                it = json.loads(line)
                if it.get("kind") == "call":
                    yield it

    def calls(self):
        """Yields every call: (face, user agent, operation, status). An open watch has no status."""
        for it in self.records():
            yield it["face"], it["client"].get("user_agent", ""), it["op"], it.get("ended", {}).get("status")
