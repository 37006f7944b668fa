#!/usr/bin/env python3
"""Checks with a real kube-apiserver that the chart's roles grant exactly the requests that the provider makes in a cluster.

  conformance/real-clients/rbac.py [--provider FILE] [--sim FILE] [--judge FILE] [--mode vcenter|supervisor|namespace] [--servers N]

The roles come from provider/deploy/{vcenter,supervisor}.yaml, and from chart/tests for a namespace other than kube-system. First our
provider plays a story with all roles, as their ServiceAccount: it initializes nodes, taints one whose machine is off, deletes one whose
machine is gone, and initializes one again. The audit log must show that the API server refuses no request, that the provider uses each
verb, and that it requests nothing else, in particular no PersistentVolumes. Then the script takes away one verb of one resource at a
time and plays the same story. Now the API server must refuse a request for the lack of this verb, and the act that BREAKS names must
not happen.

Each story has its own sim, provider and ServiceAccount. N API servers (default 3) play the stories in parallel. Takes a minute in all.
"""
import argparse
import base64
import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import queue
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import uuid

import servers
from ports import free_port
from servers import Failed, wait_until

DEPLOY = servers.ROOT / "provider/deploy"
MANIFESTS = {"vcenter": DEPLOY / "vcenter.yaml", "supervisor": DEPLOY / "supervisor.yaml",
             "namespace": DEPLOY / "chart/tests/other-namespace.rendered.yaml"}
NODES = "/api/v1/nodes"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
STRATEGIC = "application/strategic-merge-patch+json"
ANY_PORT = [f"--{face}-listen=127.0.0.1:0" for face in ("vcenter", "cluster", "supervisor", "admin")]

# The first act of the story below that cannot happen without a verb, by (resource, verb).
BREAKS = {
    ("nodes", "list"): "initialized",
    ("nodes", "watch"): "later node initialized",
    ("nodes", "patch"): "initialized",
    ("nodes", "delete"): "deleted",
    ("nodes/status", "patch"): "initialized",
    ("events", "create"): "event created",
    ("events", "patch"): "repeated event counted",
    ("leases", "get"): "initialized",
    ("leases", "create"): "initialized",
    ("leases", "update"): "still leading",
    ("secrets", "get"): "initialized",
    ("tokenreviews", "create"): "metrics read",
    ("subjectaccessreviews", "create"): "metrics read",
}


class Role:
    """The RBAC objects of a manifest, and the verbs that they grant."""

    def __init__(self, objects):
        self.objects = [it for it in objects if it["kind"] in ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")]
        account = next(it["metadata"] for it in self.objects if it["kind"] == "ServiceAccount")
        self.account, self.namespace = account["name"], account["namespace"]
        pods = [it["spec"]["template"]["spec"] for it in objects if it["kind"] in ("DaemonSet", "Deployment")]
        self.flags = [flag for pod in pods for flag in pod["containers"][0]["args"] if flag.startswith("--leader-elect")]
        self.grants = sorted({(resource, verb) for _, resource, verb in self.walk()})

    def walk(self):
        """Yields (rule, resource, verb) for every verb of every rule."""
        for it in self.objects:
            for rule in it.get("rules", ()):
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        yield rule, resource, verb

    def of(self, name, without=None):
        """Returns copies of the objects for the ServiceAccount `name`. `without` is a (resource, verb) that they do not grant."""
        copy = Role(json.loads(json.dumps(self.objects)))
        for rule, resource, verb in list(copy.walk()):
            if (resource, verb) == without:
                if len(rule["resources"]) > 1:
                    raise Failed(f"a rule of the chart has several resources: {rule['resources']}; write one rule for each")
                rule["verbs"].remove(verb)
        for it in copy.objects:
            it["rules"] = [rule for rule in it.get("rules", ()) if rule["verbs"]] or None
            if it["rules"] is None:
                del it["rules"]
            it["metadata"]["name"] = it["metadata"]["name"].replace(self.account, name)
            if "roleRef" in it:
                it["roleRef"]["name"] = it["roleRef"]["name"].replace(self.account, name)
                it["subjects"] = [{**subject, "name": name} for subject in it["subjects"]]
        return copy.objects


PLURALS = {"ServiceAccount": ("/api/v1", "serviceaccounts"), "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
           "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
           "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
           "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings")}


def collection(it):
    group, plural = PLURALS[it["kind"]]
    namespace = it["metadata"].get("namespace")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def objects(kubectl, server, manifest):
    """Returns the objects of a manifest, read by kubectl."""
    out = subprocess.run([kubectl, "--kubeconfig", server.kubeconfig, "create", "--dry-run=client", "-o", "json", "-f", manifest],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    decoder, found = json.JSONDecoder(), []
    while out := out.lstrip():
        it, end = decoder.raw_decode(out)
        found += it.get("items", [it])
        out = out[end:]
    return found


class Sim(servers.Sim):
    """The sim of one story, with four machines and no Nodes."""

    def __init__(self, binary, mode):
        self.mode = mode
        super().__init__(binary, f"rbac-{mode}")

    faces = ("vcenter", "cluster", "supervisor", "admin")

    def options(self):
        more = [f"--supervisor={self.dir}/mounts"] if self.mode == "supervisor" else []
        return ["--vms=4", "--zones=2", "--nodes=0", f"--record={self.dir}/recording", *more]

    def judge(self, judge, log, start, killed):
        """Stops the sim and judges its recording. Returns the exit code and the output lines of `conformance judge`."""
        token_file = self.dir / "supervisor.token"
        if self.mode == "supervisor":  # the sim removes its own file when it ends
            shutil.copy(self.dir / "mounts/etc/cloud/ccm-provider/token", token_file)
        self.process.terminate()
        if self.process.wait(20) != 0:
            return self.process.returncode, ["the sim did not end cleanly:", *(self.dir / "log").read_text().splitlines()[-4:]]
        mode = "supervisor" if self.mode == "supervisor" else "vcenter"
        token = [f"--secret={token_file}"] if mode == "supervisor" else []
        judged = subprocess.run(
            [judge, "judge", f"--record={self.dir}/recording", f"--ledger={self.dir}/ledger.jsonl", f"--provider-log={log}", f"--mode={mode}",
             "--monitor-period=1", f"--start={start}", "--policies", *token, *(["--killed"] if killed else [])],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return judged.returncode, judged.stdout.splitlines()

    def switch_off(self, name):
        """Switches a machine off. In Supervisor mode this goes through its VirtualMachine, because otherwise VM Operator would switch
        the machine on again."""
        if self.mode == "supervisor":
            self.virtual_machine("PATCH", name, {"spec": {"powerState": "PoweredOff"}})
        else:
            self.happen({"vm.powerOff": name})

    def delete(self, name):
        if self.mode == "supervisor":
            self.virtual_machine("DELETE", name)
        else:
            self.happen({"vm.delete": name})

    def virtual_machine(self, method, name, body=None):
        known = self.known
        token = servers.token_in(known["SIM_SUPERVISOR_KUBECONFIG"])
        path = f"/apis/vmoperator.vmware.com/v1alpha2/namespaces/{known['SIM_SUPERVISOR_NAMESPACE']}/virtualmachines/{name}"
        servers.Api("Supervisor", known["SIM_SUPERVISOR"], token, self.tls).must(method, path, body, "application/merge-patch+json")

    def happen(self, command):
        """Applies a command to the world."""
        request = urllib.request.Request(self.admin + "/world/events", json.dumps(command).encode(),
                                         {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=20):
            pass

    def machines(self):
        with urllib.request.urlopen(self.admin + "/world", timeout=20) as answer:
            return json.load(answer)["machines"]


class Story:
    """One provider with the rights of a role, perhaps without one verb, and the acts that it must perform."""

    def __init__(self, server, sim, args, role, without):
        self.server, self.sim, self.args, self.role, self.without = server, sim, args, role, without
        self.mode, self.namespace = sim.mode, role.namespace
        self.account = f"ccm-{uuid.uuid4().hex[:8]}"
        self.user = f"system:serviceaccount:{self.namespace}:{self.account}"
        self.log = sim.dir / "provider.log"
        self.process = None
        self.reset()
        for it in role.of(self.account, without):
            server.must("POST", collection(it), it)

    def reset(self):
        """Creates the namespace and removes the objects of the previous story."""
        self.server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for path in (NODES, f"/api/v1/namespaces/{self.namespace}/events", "/api/v1/namespaces/default/events"):
            self.server.must("DELETE", path)
        for path in (f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/cloud-controller-manager",
                     f"/api/v1/namespaces/{self.namespace}/secrets/vsphere-cloud-secret"):
            self.server.ask("DELETE", path)

    # ---- steps of the story

    def start(self):
        token = self.token(self.account)
        self.port = free_port()
        kubeconfig = self.sim.dir / "provider.kubeconfig"
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.server.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}))
        self.started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        flags = self.supervisor() if self.mode == "supervisor" else self.vcenter()
        self.process = subprocess.Popen(
            [self.args.provider, *flags, *self.role.flags, f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={self.port}", "--v=2",
             f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
             "--node-monitor-period=1s", "--node-status-update-frequency=2s", "--leader-elect-lease-duration=4s",
             "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"],
            stdin=subprocess.DEVNULL, stdout=open(self.log, "w"), stderr=subprocess.STDOUT)

    def vcenter(self):
        """Writes the configuration as the chart does, and stores the credentials in a Secret. Returns the provider's flags."""
        known = self.sim.known
        host, port = known["SIM_VC0_URL"].removeprefix("https://").rsplit(":", 1)
        account = {"username": known["SIM_VC0_PROVIDER_USERNAME"], "password": known["SIM_VC0_PROVIDER_PASSWORD"]}
        self.server.must("POST", f"/api/v1/namespaces/{self.namespace}/secrets", {
            "metadata": {"name": "vsphere-cloud-secret"},
            "data": {f"{host}.{key}": base64.b64encode(value.encode()).decode() for key, value in account.items()}})
        config = self.sim.dir / "vsphere.conf"
        config.write_text(json.dumps({
            "global": {"port": int(port), "caFile": known["SIM_CA"], "secretName": "vsphere-cloud-secret", "secretNamespace": self.namespace},
            "vcenter": {host: {"server": host, "datacenters": ["DC0"]}}, "labels": {"region": "k8s-region", "zone": "k8s-zone"}}))
        return ["--cloud-provider=vsphere", f"--cloud-config={config}"]

    def supervisor(self):
        config = self.sim.dir / "vsphere.conf"
        config.write_text("")
        return ["--cloud-provider=vsphere-paravirtual", f"--cloud-config={config}", *self.sim.known["SIM_SUPERVISOR_FLAGS"].split()]

    def allow_metrics(self):
        """Creates a ServiceAccount for a scraper that may read the metrics."""
        name = f"{self.account}-scraper"
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        for it in (
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": self.namespace}},
            {**rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
            {**rbac, "kind": "ClusterRoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}]}):
            self.server.must("POST", collection(it), it)
        self.scraper = self.token(name)

    def metrics_are_read(self):
        """True if the scraper can read the metrics and a client without a token cannot."""
        context = ssl._create_unverified_context()
        def status(headers):
            request = urllib.request.Request(f"https://127.0.0.1:{self.port}/metrics", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=20, context=context) as answer:
                    return answer.status
            except urllib.error.HTTPError as refused:
                return refused.code
        return status({"Authorization": f"Bearer {self.scraper}"}) == 200 and status({}) == 403

    def token(self, account):
        return self.server.must("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token",
                                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]

    def register(self, machine):
        """Creates the Node that a kubelet would register."""
        name = machine["name"]
        system = str(uuid.UUID(bytes=uuid.UUID(machine["uuid"]).bytes_le))
        self.server.must("POST", NODES, {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
            "status": {"addresses": [{"type": "Hostname", "address": name}], "conditions": [{"type": "Ready", "status": "True"}],
                       "nodeInfo": {"systemUUID": system, **dict.fromkeys((
                           "machineID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
                           "kubeProxyVersion", "operatingSystem", "architecture"), "")}}})

    def falls_silent(self, name):
        """Sets the condition Ready of a node to Unknown, as the node controller does for a silent kubelet."""
        self.server.must("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, STRATEGIC)

    def taints(self, name):
        """Returns the keys of a node's taints; None if the node does not exist."""
        status, node = self.server.ask("GET", f"{NODES}/{name}")
        return {it["key"] for it in node["spec"].get("taints", ())} if status == 200 else None

    def initialized(self, *names):
        found = [self.taints(name) for name in names]
        return all(it is not None and UNINITIALIZED not in it for it in found)

    def events(self, reason):
        return [it for it in self.server.must("GET", "/api/v1/namespaces/default/events")["items"] if it["reason"] == reason]

    def requests(self):
        """Yields the requests of the provider: (resource, verb, status)."""
        for line in self.server.audit.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                return # still being written
            it = json.loads(line)
            if it["user"]["username"] == self.user:
                thing = it.get("objectRef", {})
                resource = "/".join(filter(None, (thing.get("resource", it["requestURI"]), thing.get("subresource"))))
                yield resource, it["verb"], it["responseStatus"]["code"]

    def refused(self):
        """Returns (resource, verb) of each request that the API server has refused with 403."""
        return {(resource, verb) for resource, verb, status in self.requests() if status == 403}

    # ---- the story

    def acts(self):
        """Returns the acts in order: (name, function that starts the act, function that is true once it has happened)."""
        first, off, gone, late = [it["name"] for it in self.sim.machines()]
        machine = {it["name"]: it for it in self.sim.machines()}

        def joins():
            for name in (first, off, gone):
                self.register(machine[name])
            self.start()

        def falls(name, change):
            change(name)
            self.falls_silent(name)

        def again():
            taint = {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}
            self.server.must("PATCH", f"{NODES}/{first}", {"spec": {"taints": [taint]}}, STRATEGIC)

        nothing = lambda: None
        return (
            ("initialized", joins, lambda: self.initialized(first, off, gone)),
            ("still leading", nothing, lambda: self.process.poll() is None and ("leases", "update", 200) in set(self.requests())),
            ("event created", nothing, lambda: len(self.events("Synced")) >= 3),
            ("later node initialized", lambda: self.register(machine[late]), lambda: self.initialized(late)),
            ("tainted", lambda: falls(off, self.sim.switch_off), lambda: SHUTDOWN in (self.taints(off) or ())),
            ("deleted", lambda: falls(gone, self.sim.delete), lambda: self.taints(gone) is None),
            ("initialized again", again, lambda: self.initialized(first)),
            ("repeated event counted", nothing, lambda: any(it["count"] > 1 for it in self.events("Synced"))),
            ("metrics read", self.allow_metrics, self.metrics_are_read),
        )

    def whole(self):
        """Plays the story with all rights of the role. Returns the problems, one sentence each."""
        for name, do, holds in self.acts():
            do()
            wait_until(lambda name=name: f"{name}: {self.last_words()}", holds, 40, 0.1)
        self.process.terminate()
        if self.process.wait(10) != 0:
            raise Failed(f"the provider ended after SIGTERM with {self.process.returncode}: {self.last_words()}")
        asked = set(self.requests())
        granted = set(self.args.roles[self.mode].grants)
        refused = {f"{verb} {resource} is refused" for resource, verb, status in asked if status == 403}
        # A 404 also shows that the verb was granted: the provider gets the lease before it creates it.
        used = {(resource, verb) for resource, verb, status in asked if status != 403}
        return sorted(refused | {f"{verb} {resource} is granted but not used" for resource, verb in granted - used}
                      | {f"{verb} {resource} is used, but no rule of the chart grants it" for resource, verb in used - granted}) + self.volumes()

    def volumes(self):
        """Returns the requests for volumes, refused or not, which are problems because a cloud provider does not need them."""
        return [f"{verb} {resource}" for resource, verb, _ in self.requests() if resource.startswith("persistentvolume")]

    def lacking(self):
        """Plays the story without one verb, up to the act that BREAKS names. Returns the problems, one sentence each."""
        breaks = BREAKS.get(self.without)
        if breaks is None:
            return [f"BREAKS has no entry for {self.without}; add one"]
        for name, do, holds in self.acts():
            do()
            if name != breaks:
                wait_until(lambda name=name: f"{name}, which should not need {self.without}: {self.last_words()}", holds, 40, 0.1)
                continue
            # Calls `holds` again and again, because for some acts `holds` itself makes the provider send the request.
            wait_until(lambda: f"no request was refused: {self.last_words()}", lambda: not holds() and self.without in self.refused(), 20, 0.1)
            if name == "still leading":
                wait_until("the provider still runs, although it cannot renew its lease", lambda: self.process.poll() is not None, 20, 0.1)
            elif holds():
                return [f"the act happened without the verb: {name}"]
            break
        return [f"{verb} {resource} is refused too" for resource, verb in sorted(self.refused() - {self.without})] + self.volumes()

    def last_words(self):
        return "\n".join(self.log.read_text().splitlines()[-4:]) if self.log.exists() else "no log"

    def end(self):
        """Ends the provider, and judges it by the recording of the sim. Returns the output of the judge if it found a violation. The
        recording shows sessions and secrets, but no Nodes, because these are in another cluster."""
        if self.process is None:
            return []
        killed = self.process.poll() is None
        if killed:
            self.process.kill()
            self.process.wait()
        code, told = self.sim.judge(self.args.judge, self.log, self.started, killed)
        # Exit code 7 means that the provider made no call to the sim, because it lacks a verb that it needs before its first call.
        held = code == 0 or (code == 7 and self.without)
        self.sim.keep = not held
        return [] if held else told


def play(server, args, mode, without):
    """Plays one story. Returns its name, its problems, and the numbers of the provider's requests by resource, verb and status."""
    resource, verb = without or ("", "")
    name = f"{mode}: without {verb} {resource} no: {BREAKS.get(without)}" if without else f"{mode}: all rules are needed and suffice"
    with Sim(args.sim, mode) as sim:
        story = Story(server, sim, args, args.roles[mode], without)
        try:
            wrong = story.lacking() if without else story.whole()
        except Failed as failed:
            wrong = [str(failed)]
        except BaseException:
            story.end()
            raise
        return name, wrong + story.end(), collections.Counter(story.requests())


def main():
    target = os.environ.get("CARGO_TARGET_DIR", servers.ROOT / "target")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--provider", default=os.environ.get("PROVIDER_BIN") or f"{target}/release/provider")
    parser.add_argument("--sim", default=os.environ.get("SIM_BIN") or f"{target}/release/sim")
    parser.add_argument("--judge", default=os.environ.get("JUDGE_BIN") or f"{target}/release/conformance")
    parser.add_argument("--mode", choices=tuple(MANIFESTS), action="append", help="mode to test; can be repeated [default: all]")
    parser.add_argument("--servers", type=int, default=3, help="number of API servers that play stories in parallel [default: 3]")
    args = parser.parse_args()
    for name, crate in (("provider", "vsphere-cloud-provider"), ("sim", "vsphere-sim"), ("judge", "vsphere-conformance")):
        if not os.access(getattr(args, name), os.X_OK):
            parser.error(f"--{name} {getattr(args, name)}: is not a program; build it: cargo build --release --locked -p {crate}")
    kubectl = servers.built("kubectl")
    for name in ("etcd", "kube-apiserver"):
        servers.built(name)
    os.environ["CLUSTER_AUDIT_OF"] = "system:serviceaccounts"

    stories, passed, failed, lock = queue.Queue(), [], [], threading.Lock()
    args.roles, ready = {}, threading.Event()

    def fill(server):
        """Reads the manifests with kubectl on the first server, and queues the stories, the longest first."""
        modes = args.mode or tuple(MANIFESTS)
        for mode in modes:
            args.roles[mode] = Role(objects(kubectl, server, MANIFESTS[mode]))
        if "namespace" in modes: # plays only the whole story, because the roles are those of vCenter mode in another namespace
            stories.put(("namespace", None))
            modes = [mode for mode in modes if mode != "namespace"]
        for without in (None, *sorted(BREAKS, key=lambda it: list(BREAKS.values()).index(BREAKS[it]), reverse=True)):
            for mode in modes:
                if without is None or without in args.roles[mode].grants:
                    stories.put((mode, without))
        for mode in modes:
            for without in set(args.roles[mode].grants) - set(BREAKS):
                stories.put((mode, without))
        ready.set()

    def work(n):
        with servers.Real(f"rbac-{n}") as server:
            if n == 0:
                fill(server)
            ready.wait()
            while True:
                try:
                    mode, without = stories.get_nowait()
                except queue.Empty:
                    return
                name, wrong, asked = play(server, args, mode, without)
                with lock:
                    (failed if wrong else passed).append(name)
                    print(f"{'FAIL' if wrong else 'ok  '} {name}", *(f"     | {it}" for it in wrong), sep="\n", flush=True)
                    if not without:
                        calls = collections.Counter()
                        for (resource, verb, _), n_calls in asked.items():
                            calls[f"{verb} {resource}"] += n_calls
                        print(f"     {json.dumps(dict(sorted(calls.items())))}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.servers) as workers:
        runs = [workers.submit(work, n) for n in range(args.servers)]
        for it in concurrent.futures.as_completed(runs):
            if it.exception():
                ready.set()
                failed.append(str(it.exception()))
                print(f"FAIL an API server, or the script on it, failed: {it.exception()}", flush=True)
    print(f"{len(passed)} passed, {len(failed)} failed")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main())
