#!/usr/bin/env python3
"""Runs a stock Go cloud controller manager (conformance/peers/ccm) against `sim serve` and a real kube-apiserver, and compares.

  conformance/real-clients/ccm.py [--ccm CCM] [--sim SIM] [--against sim|real] [--content-type TYPE]

Plays the same story on both servers, with Protobuf bodies (client-go's default) and with JSON. After each act all nodes and
services must be the same on both; at the end also the events, the lease, and the numbers of the manager's writes by verb and
resource. The comparison leaves out uids, times, versions, and the addresses and ports that a server draws. `--against real`
plays the story on two real servers, which tests the comparison itself. Takes a minute and a half.
"""
import collections
import concurrent.futures
import difflib
import json
import signal
import subprocess

import comparison
from servers import Failed, wait_until

N_NODES = 6
CONTENT_TYPES = ("application/vnd.kubernetes.protobuf", "application/json")
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
NODES, SERVICES = "/api/v1/nodes", "/api/v1/namespaces/ccm/services"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Story:
    """One run of the story on one server: the machines of the cloud, the replicas of the manager, and the recorded objects."""

    def __init__(self, server, ccm, content_type):
        self.server, self.ccm, self.content_type = server, ccm, content_type
        self.cloud = server.dir / "cloud.json"
        self.instances = {}
        self.replicas = []
        self.seen = []

    # ---- steps of the story

    def start(self):
        log = open(self.server.dir / f"ccm-{len(self.replicas)}.log", "w")
        self.replicas.append(subprocess.Popen([
            self.ccm, "--cloud-provider=file", f"--cloud-config={self.cloud}", f"--kubeconfig={self.server.kubeconfig}",
            f"--kube-api-content-type={self.content_type}", "--authentication-skip-lookup", "--secure-port=0",
            "--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16", "--node-monitor-period=1s",
            # So long that no later round of addresses runs while nodes join, because it would write an address that their
            # initialization writes too. The first round runs at once; see `settled`.
            "--node-status-update-frequency=10s", "--route-reconciliation-period=2s", "--leader-elect-lease-duration=10s",
            "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=1s", "--v=4"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def kill(self, replica):
        replica.kill()
        replica.wait()

    def end(self):
        for replica in self.replicas:
            if replica.poll() is None:
                replica.send_signal(signal.SIGTERM)
        for replica in self.replicas:
            try:
                replica.wait(10)
            except subprocess.TimeoutExpired:
                self.kill(replica)

    def settled(self, replica):
        """Waits until the controllers of a replica work and its first round of addresses is over. That round begins when the
        caches are filled, and it may write the address of a node that joins meanwhile a second time."""
        path = self.server.dir / f"ccm-{replica}.log"

        def is_settled():
            text = path.read_text()
            return " nodes status took " in text and text.count('"Caches are synced"') >= 2
        wait_until(lambda: f"{self.server.name}: no first round of addresses\n{self.log()}", is_settled, 60)

    def log(self):
        logs = sorted(self.server.dir.glob("ccm-*.log"))
        return "".join(f"{path.name}: {line}\n" for path in logs for line in path.read_text().splitlines()[-12:])

    def machines(self, **changes):
        """Changes machines, by name. A change of None deletes the machine. The manager sees all changes at the same moment."""
        for name, change in changes.items():
            name = name.replace("_", "-")
            if change is None:
                del self.instances[name]
            else:
                self.instances.setdefault(name, {"name": name}).update(change)
        scratch = self.cloud.with_suffix(".new")
        scratch.write_text(json.dumps(list(self.instances.values())))
        scratch.rename(self.cloud)

    def join(self, n):
        """Adds a machine, and creates the node that its kubelet would register."""
        name = f"node-{n}"
        self.machines(**{name: {"id": f"machine-{n}", "type": "m1.large", "region": "r1", "zone": f"z{n % 3}",
                                "addresses": [f"192.0.2.{n}"]}})
        self.server.must("POST", NODES, {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
            "spec": {"podCIDR": f"10.244.{n}.0/24", "podCIDRs": [f"10.244.{n}.0/24"],
                     "taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
            "status": {"addresses": [{"type": "Hostname", "address": name}], "conditions": [ready("True")]}})

    def kubelet(self, n, status):
        """Sets the condition Ready of a node, as its kubelet or the node controller would."""
        patch = {"status": {"conditions": [ready(status)]}}
        self.server.must("PATCH", f"{NODES}/node-{n}/status", patch, STRATEGIC)

    def until(self, holds, path, what):
        """Waits up to 60 s until `holds` is true of the object at `path`. `holds` gets None if the object does not exist."""
        last = []

        def check():
            status, answer = self.server.ask("GET", path)
            last[:] = [answer]
            if status not in (200, 404):
                return False
            return holds(None if status == 404 else answer)
        wait_until(lambda: f"{self.server.name}: {what}: {json.dumps(last)[:1500]}\n{self.log()}", check, 60)

    def events(self):
        """Returns the events that the manager has written. Leaves out those of the API server, which can come at any time."""
        events = self.server.must("GET", "/api/v1/events")["items"]
        return [it for it in events if it["metadata"]["managedFields"][0]["manager"] == "ccm"]

    def recorded(self, *wanted):
        """Waits for events, each given as object name and reason. An event that is given twice must exist twice."""
        missing = collections.Counter()

        def check():
            found = collections.Counter((it["involvedObject"]["name"], it["reason"]) for it in self.events())
            missing.clear()
            missing.update(collections.Counter(wanted) - found)
            return not missing
        wait_until(lambda: f"{self.server.name}: missing events: {dict(missing)}\n{self.log()}", check, 60)

    def act(self, name):
        """Ends an act: records the present nodes and services for the comparison."""
        self.seen.append((name, {path: self.list(path) for path in (NODES, SERVICES)}))

    def list(self, path):
        """Returns the normalized objects of a collection in a fixed order."""
        return sorted(map(normal, self.server.must("GET", path)["items"]), key=lambda it: json.dumps(it, sort_keys=True))

    # ---- the story

    def play(self):
        self.server.must("POST", "/api/v1/namespaces", {"metadata": {"name": "ccm"}})
        self.machines()
        self.start()
        self.until(lambda it: it and it["spec"]["holderIdentity"], LEASE, "a leader")
        first = self.server.must("GET", LEASE)["spec"]["holderIdentity"]
        self.settled(0)
        self.start()

        for n in range(1, N_NODES + 1):
            self.join(n)
        for n in range(1, N_NODES + 1):
            self.until(joined(f"192.0.2.{n}"), f"{NODES}/node-{n}", "a node that joins")
        self.act("join")

        self.machines(node_1={"addresses": ["192.0.2.101"]})
        self.until(lambda it: address(it) == "192.0.2.101", f"{NODES}/node-1", "the new address")
        self.act("address")

        self.machines(node_2={"shutdown": True})
        self.kubelet(2, "Unknown")
        self.until(lambda it: SHUTDOWN in taints(it), f"{NODES}/node-2", "the taint of a machine that is off")
        self.act("shutdown")

        self.machines(node_2={"shutdown": False})
        self.kubelet(2, "True")
        self.until(lambda it: SHUTDOWN not in taints(it), f"{NODES}/node-2", "no taint any more")
        self.act("boot")

        self.machines(node_3=None)
        self.kubelet(3, "Unknown")
        self.until(lambda it: it is None, f"{NODES}/node-3", "no node without a machine")
        self.act("delete")

        for name in ("stays", "changes", "goes"):
            self.server.must("POST", SERVICES, service(name))
            self.until(balanced(80), f"{SERVICES}/{name}", "a balancer")
        self.act("services")

        self.server.must("DELETE", f"{SERVICES}/goes")
        self.until(lambda it: it is None, f"{SERVICES}/goes", "a service that goes")
        # The manager still tries to write a status of this service, in vain. Its next action for a service shows that it has tried.
        self.act("service deleted")

        ports = {"spec": {"ports": [port(80), port(443)]}}
        self.server.must("PATCH", f"{SERVICES}/stays", ports, MERGE)
        self.until(balanced(80, 443), f"{SERVICES}/stays", "a balancer with two ports")
        self.server.must("PATCH", f"{SERVICES}/changes", {"spec": {"type": "ClusterIP"}}, MERGE)
        self.until(lambda it: it["status"] == {"loadBalancer": {}} and not it["metadata"].get("finalizers"),
                   f"{SERVICES}/changes", "no balancer, no finalizer")
        self.act("service changes")

        # Waits for the events: each controller sends its events in order, but later, and a manager that ends loses its unsent events.
        self.recorded(*((f"node-{n}", "Synced") for n in range(1, N_NODES + 1)), ("node-3", "DeletingNode"),
                      ("stays", "EnsuredLoadBalancer"), ("goes", "DeletedLoadBalancer"), ("changes", "DeletedLoadBalancer"))
        self.kill(self.replicas[0])
        self.until(lambda it: it["spec"]["holderIdentity"] not in ("", first), LEASE, "another leader")
        # The controllers start one by one. The service controller checks every 100 ms if its caches are filled, so the node
        # controller may initialize a node before the service controller sees any node. Then the service controller does not
        # update its balancers and writes no event about it, on either server. So the node joins only after a second event for the
        # balancer of `stays`, which shows that the service controller works.
        self.recorded(("stays", "EnsuredLoadBalancer"), ("stays", "EnsuredLoadBalancer"))
        self.settled(1)
        self.join(N_NODES + 1)
        self.until(joined(f"192.0.2.{N_NODES + 1}"), f"{NODES}/node-{N_NODES + 1}", "a node that joins the second leader")
        self.recorded((f"node-{N_NODES + 1}", "Synced"), ("stays", "UpdatedLoadBalancer"))
        self.act("takeover")
        self.end()
        self.seen.append(("events", sorted({event(it) for it in self.events()})))
        self.seen.append(("lease", normal(self.server.must("GET", LEASE))))
        self.seen.append(("writes", self.writes()))

    def writes(self):
        """Counts the writes of the manager by verb, resource and, for a failure, status. The numbers of lease renewals and events
        depend on the clock, so they count only as "some". Conflicts between controllers depend on the clock too and are tried
        again, so they are left out. After a conflict, a controller may also update a node again that it has just updated, so such
        a node counts once. A renewal of the lease gets 504 if the manager is killed meanwhile."""
        counts = collections.Counter()
        own = [it for it in self.server.writes() if it[0].startswith("ccm/")]
        in_conflict = {name for _, verb, resource, name, status in own if (verb, resource, status) == ("update", "nodes", 409)}
        counted = set()
        for _, verb, resource, name, status in own:
            if status == 409 or (verb, resource, status) == ("update", "leases", 504):
                continue
            if (verb, resource) == ("update", "nodes") and status < 300 and name in in_conflict:
                if name in counted:
                    continue
                counted.add(name)
            what = f"{verb} {resource}" if status < 300 else f"{verb} {resource}: {status}"
            timed = what == "update leases" or resource == "events"
            counts[what] = "some" if timed else counts[what] + 1
        if counts["update nodes"] < N_NODES:
            raise Failed(f"{self.server.name}: the record of writes lacks those of the manager: {counts}")
        return dict(sorted(counts.items()))


# ---- objects

def ready(status):
    return {"type": "Ready", "status": status, "reason": f"Kubelet{status}", "message": "as the story has it"}


def port(number):
    return {"name": f"p{number}", "port": number, "protocol": "TCP"}


def service(name):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [port(80)]}}


def taints(node):
    return [taint["key"] for taint in node["spec"].get("taints", [])]


def address(node):
    return next((it["address"] for it in node["status"]["addresses"] if it["type"] == "InternalIP"), None)


def joined(its_address):
    def holds(node):
        routed = any(it["type"] == "NetworkUnavailable" and it["status"] == "False" for it in node["status"]["conditions"])
        return UNINITIALIZED not in taints(node) and address(node) == its_address and routed
    return holds


def balanced(*ports):
    def holds(it):
        ingress = it["status"].get("loadBalancer", {}).get("ingress", [{}])[0]
        return [p["port"] for p in ingress.get("ports", [])] == list(ports) and it["metadata"].get("finalizers")
    return holds


LEFT_OUT = {  # fields that name an object or a moment of one server, or that contain values that a server draws
    "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "lastHeartbeatTime", "lastTransitionTime",
    "acquireTime", "renewTime", "time", "holderIdentity", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"}


def normal(it):
    """Returns a value without the contents of the fields in LEFT_OUT."""
    if isinstance(it, dict):
        found = {key: "…" if key in LEFT_OUT else normal(value) for key, value in it.items()}
        if "managedFields" in found:  # their order depends on their times, which have whole seconds
            found["managedFields"].sort(key=lambda entry: (entry["manager"], entry.get("subresource", "")))
        return found
    return [normal(value) for value in it] if isinstance(it, list) else it


def event(it):
    about = it["involvedObject"]
    return (about["kind"], about.get("namespace", ""), about["name"].split("_")[0], it["type"], it["reason"],
            it["message"].split("_")[0], it["source"].get("component", ""), it.get("reportingComponent", ""))


# ---- a run on each server, and the comparison

def play(server, ccm, content_type):
    story = Story(server, ccm, content_type)
    try:
        story.play()
    finally:
        story.end()
    return story.seen


def compare(left, right, names):
    """Prints a line for each comparison. Returns the number of differences."""
    failed = 0
    for (what, a), (_, b) in zip(left, right):
        texts = [json.dumps(it, indent=1, sort_keys=True).splitlines() for it in (a, b)]
        same = texts[0] == texts[1]
        print(f"{'ok  ' if same else 'FAIL'} {what}" + (f": {b}" if what == "writes" else ""))
        if not same:
            failed += 1
            lines = list(difflib.unified_diff(*texts, *names, lineterm="", n=4))
            print("\n".join("     | " + line for line in lines[:80]))
    return failed


def main():
    options = comparison.Options(__doc__, "ccm")
    options.parser.add_argument("--content-type", choices=CONTENT_TYPES, help="content type to play alone [default: both]")
    args = options.parse()
    looked_at = failed = 0
    for content_type in [args.content_type] if args.content_type else CONTENT_TYPES:
        print(f"--- {content_type}", flush=True)
        with comparison.pair(args) as (real, ours), concurrent.futures.ThreadPoolExecutor() as both:
            runs = [both.submit(play, server, args.client, content_type) for server in (real, ours)]
            left, right = [run.result() for run in runs]
            looked_at += len(left)
            differ = compare(left, right, (real.name, ours.name))
            real.keep = ours.keep = differ > 0
            failed += differ
    print(f"{looked_at - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    comparison.run(main)
