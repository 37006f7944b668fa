#!/usr/bin/env python3
"""Plays the same story with the upstream Go provider in paravirtual mode and with ours (--instances-mode=v1), and compares the Nodes.

  conformance/real-clients/upstream.py --binary FILE [--provider FILE] [--sim FILE] [--machines N]

--binary names a vsphere-cloud-controller-manager of kubernetes/cloud-provider-vsphere, which this project does not build. Each provider
has its own `sim serve`, both with the same seed. After each act the Nodes must be the same, except for values that name a moment or a
writer. The script prints the calls of both providers to the Supervisor and to the cluster side by side. During the join the numbers of
calls to the Supervisor must be the same for each operation; later calls depend on the clock. Takes three minutes.

The Go provider reads files at fixed paths and connects to a fixed host name. So the script runs it in a mount namespace with a private
/etc, which needs root.
"""
import argparse
import collections
import concurrent.futures
import difflib
import json
import os
import signal
import subprocess

import comparison
from servers import ROOT, Failed, World, wait_until

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
# Makes an /etc that only the provider sees, with the files that a Supervisor mounts, and starts the provider.
ETC = """
set -e
etc=$(mktemp -d)
mount -t tmpfs tmpfs "$etc"
cp -a /etc/. "$etc"
cp -a "$1/etc/." "$etc"
echo '127.0.0.1 supervisor.default.svc' >>"$etc/hosts"
mount --bind "$etc" /etc
shift
exec "$@"
"""
COMMON = ["--cloud-provider=vsphere-paravirtual", "--authentication-skip-lookup", "--leader-elect=false", "--bind-address=127.0.0.1",
          "--secure-port=0", "--cluster-name=kubernetes", "--controllers=cloud-node-controller,cloud-node-lifecycle-controller",
          "--configure-cloud-routes=false", "--node-monitor-period=1s", "--node-status-update-frequency=15s", "--v=2"]
LEFT_OUT = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "lastHeartbeatTime", "lastTransitionTime", "timeAdded"}


class Story:
    """One provider in its own world, and its Nodes and calls as recorded after each act."""

    def __init__(self, world, command):
        self.world, self.command, self.seen, self.counted = world, command, [], collections.Counter()
        self.process = None
        self.vms = f"/apis/vmoperator.vmware.com/v1alpha6/namespaces/{world.namespace}/virtualmachines"

    def start(self):
        log = open(self.world.dir / "provider.log", "w")
        empty = self.world.dir / "vsphere.conf"
        empty.touch()
        environment = {**os.environ, "SUPERVISOR_APISERVER_PORT": self.world.known["SUPERVISOR_APISERVER_PORT"]}
        flags = [*COMMON, f"--cloud-config={empty}", f"--kubeconfig={self.world.kubeconfig}"]
        self.process = subprocess.Popen([*self.command, *flags], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def until(self, what, holds):
        """Waits up to 150 s until `holds` is true of the nodes, which it gets by name."""
        def check():
            if self.process and self.process.poll() is not None:
                raise Failed(f"{self.world.name}: the provider ended with {self.process.returncode}\n{self.log()}")
            return holds({it["metadata"]["name"]: it for it in self.world.must("GET", NODES)["items"]})
        wait_until(lambda: f"{self.world.name}: {what}\n{self.log()}", check, 150, 0.2)

    def log(self):
        return "\n".join((self.world.dir / "provider.log").read_text().splitlines()[-12:])

    def vm(self, name, method, body=None):
        self.world.supervisor.must(method, f"{self.vms}/{name}", body, MERGE)

    def act(self, name):
        """Ends an act: records the present nodes, and the calls since the end of the previous act."""
        nodes = sorted((normal(it) for it in self.world.must("GET", NODES)["items"]), key=lambda it: it["metadata"]["name"])
        calls = collections.Counter()
        for face, agent, op, status in self.world.calls():
            if not agent.startswith("Python-urllib") and op.split()[0] in (
                    "get", "list", "watch", "create", "update", "patch", "delete"):
                calls[(face, op + ("" if status is None or status < 300 else f": {status}"))] += 1
        self.seen.append((name, nodes, calls - self.counted))
        self.counted = calls

    def play(self):
        self.until("all nodes register", lambda nodes: len(nodes) == self.world.machines)
        self.start()
        # Waits for addresses too, because the Go provider writes them after it has removed the taint.
        self.until("all nodes are initialized", lambda nodes: all(UNINITIALIZED not in taints(it) and addresses(it) for it in nodes.values()))
        self.act("join")

        self.world.happen({"guest.ip.set": {"machine": "node-0001", "addresses": [["10.77.0.1"]]}})
        self.world.happen({"guest.ip.clear": "node-0004"})
        self.until("the new address", lambda nodes: "10.77.0.1" in addresses(nodes["node-0001"]))
        self.act("address")

        self.vm("node-0002", "PATCH", {"spec": {"powerState": "PoweredOff"}})
        self.vm("node-0003", "DELETE")
        self.until("the taint of a machine that is off", lambda nodes: SHUTDOWN in taints(nodes["node-0002"]))
        self.until("no node without a machine", lambda nodes: "node-0003" not in nodes)
        self.act("off and gone")

        self.vm("node-0002", "PATCH", {"spec": {"powerState": "PoweredOn"}})
        self.until("no taint any more", lambda nodes: SHUTDOWN not in taints(nodes["node-0002"]))
        self.act("on again")


def taints(node):
    return [taint["key"] for taint in node["spec"].get("taints", [])]


def addresses(node):
    return [it["address"] for it in node["status"].get("addresses", [])]


def normal(it):
    if isinstance(it, dict):
        return {key: normal(value) for key, value in it.items() if key not in LEFT_OUT}
    return [normal(value) for value in it] if isinstance(it, list) else it


def play(story):
    try:
        story.play()
    finally:
        if story.process:
            story.end()


def beside(name, theirs, ours):
    """Prints the calls of both providers side by side. Returns True if those to the Supervisor are the same."""
    print(f"     {'calls: ' + name:48} upstream  ours")
    for face, op in sorted(theirs.keys() | ours.keys()):
        print(f"     {face:16}{op:32} {theirs[face, op]:8}  {ours[face, op]:4}")
    supervisor = [{op: n for (face, op), n in it.items() if face == "k8s.supervisor"} for it in (theirs, ours)]
    return supervisor[0] == supervisor[1]


def compare(upstream, ours):
    """Prints a line for each comparison. Returns the number of differences."""
    failed = 0
    for (name, left, theirs), (_, right, our_calls) in zip(upstream, ours):
        texts = [json.dumps(it, indent=1, sort_keys=True).splitlines() for it in (left, right)]
        same = texts[0] == texts[1]
        print(f"{'ok  ' if same else 'FAIL'} {name}: {len(left)} nodes")
        if not same:
            lines = list(difflib.unified_diff(*texts, "upstream", "ours", lineterm="", n=6))
            print("\n".join("     | " + line for line in lines[:120]))
        as_many = beside(name, theirs, our_calls)
        if name == "join":
            print(f"{'ok  ' if as_many else 'FAIL'} {name}: the same calls to the Supervisor")
            failed += not as_many
        failed += not same
    return failed


def main():
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--binary", metavar="FILE", required=True, help="the upstream Go provider")
    parser.add_argument("--provider", metavar="FILE", default=f"{target}/release/provider", help="our provider [default: target/release/provider]")
    parser.add_argument("--sim", metavar="FILE", default=f"{target}/release/sim", help="the sim [default: target/release/sim]")
    parser.add_argument("--machines", metavar="N", type=int, default=20, help="number of machines, at least 5 [default: 20]")
    args = parser.parse_args()
    for option in ("binary", "provider", "sim"):
        if not comparison.program(getattr(args, option)):
            parser.error(f"--{option} {getattr(args, option)}: is not a program; name an executable file")
    if args.machines < 5:
        parser.error(f"--machines {args.machines}: write 5 or more, because the story changes five machines")
    if os.geteuid() != 0:
        parser.error("a mount namespace with a private /etc needs root; run this as root")
    with World(args.sim, "upstream", args.machines) as theirs, World(args.sim, "ours", args.machines) as ours:
        flags = ours.known["SIM_SUPERVISOR_FLAGS"].split()
        stories = [
            Story(theirs, ["unshare", "-m", "bash", "-c", ETC, "etc", str(theirs.dir / "mounts"), os.path.abspath(args.binary),
                           "--kube-api-content-type=application/json"]),
            Story(ours, [args.provider, "--instances-mode=v1", *flags]),
        ]
        with concurrent.futures.ThreadPoolExecutor() as both:
            for run in [both.submit(play, story) for story in stories]:
                run.result()
        failed = compare(*(story.seen for story in stories))
        theirs.keep = ours.keep = failed > 0
    print(f"{failed} failed")
    return failed


if __name__ == "__main__":
    comparison.run(main)
