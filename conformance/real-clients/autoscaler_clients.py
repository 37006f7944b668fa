#!/usr/bin/env python3
"""Runs stock Go clients of the Cluster Autoscaler's protocol, one per generation, against our server over the simulated Supervisor.

  conformance/real-clients/autoscaler_clients.py [--provider PROVIDER] [--sim SIM]

The clients (conformance/peers/autoscaler-client) call all 15 methods, and make and delete two machines each. They run over plain text on
loopback, and then over mutual TLS with certificates as the chart makes them. The ledger of the sim must show exactly their machines, and a
client without certificate must get no answer. Takes less than two minutes. Needs openssl 3 for the certificates.
"""
import argparse
import os
import signal
import ssl
import subprocess
import sys
import urllib.request

from lane import Process
from ports import free_port
from servers import ROOT, Failed, World, built, end_in_order_on_sigterm, recorded, wait_until

CLIENTS = {"G1": "autoscaler-client-g1", "G2": "autoscaler-client-g2", "G3": "autoscaler-client"}
MACHINES_PER_CLIENT = 2
GROUPS = """groups:
- name: plain
  max: 4
  machine: &machine {className: best-effort-small, imageName: vmi-0123456789abcdef0, storageClass: gold, zone: zone-a,
                     bootstrap: {secretName: bootstrap}}
- name: tuned
  max: 2
  options: {scaleDownUnneededTime: 5m}
  machine: *machine
"""
CERTIFICATES = ROOT / "provider/deploy/chart/files/certificates.sh"
INSECURE = ssl._create_unverified_context()  # pylint: disable=protected-access


def certificates(folder):
    """Makes certificates with the function `make` of the chart's Job. The whole Job cannot run here, because it stores them with server-side
    apply, which the sim lacks. Returns the folders of the server and of the client, each with `tls.crt`, `tls.key` and `ca.crt`."""
    _, begin, rest = CERTIFICATES.read_text().partition("\nmake() {")
    body, end, _ = rest.partition("\n}\n")
    script = f'set -eu; die() {{ echo "$1; $2"; exit 1; }}{begin}{body}{end}make'
    made = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env={
        "PATH": os.environ["PATH"], "dir": str(folder), "SERVER_HOST": "localhost", "DAYS": "2"})
    if made.returncode:
        raise Failed(f"{CERTIFICATES}: {made.stdout}")
    return folder / "new-server", folder / "new-client"


class Lane:
    """Our server over a world, and the clients that call it."""

    def __init__(self, name, provider, world, listen_host, server_options, client_options):
        self.name, self.world, self.client_options = name, world, client_options
        self.port, self.secure = free_port(), free_port()
        self.address = f"{listen_host}:{self.port}"
        groups = world.dir / "groups.yaml"
        groups.write_text(GROUPS)
        self.server = Process(name.replace(" ", "-"), world.dir, [
            provider, "autoscaler", "--groups", groups, "--supervisor-kubeconfig", world.known["SIM_SUPERVISOR_KUBECONFIG"],
            "--namespace", world.namespace, "--listen", f"127.0.0.1:{self.port}", "--bind-address", "127.0.0.1",
            "--secure-port", self.secure, *server_options])

    def __enter__(self):
        self.server.start()
        wait_until(lambda: f"{self.name}: the server is not ready:\n{self.server.log()}", self.is_ready, 30)
        return self

    def __exit__(self, *_):
        self.server.end(signal.SIGTERM)

    def is_ready(self):
        if self.server.process.poll() is not None:
            raise Failed(f"{self.name}: the server ended:\n{self.server.log()}")
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.secure}/readyz", timeout=5, context=INSECURE) as answer:
                return answer.status == 200
        except OSError:
            return False

    def run(self, client, options):
        groups = f"VirtualMachine/{self.world.namespace}/"
        command = [client, "--address", self.address, "--group", groups + "plain", "--tuned", groups + "tuned=5m", *options]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def machines(self):
        """Returns the numbers of machines that were created and deleted, by the ledger of the sim."""
        writes = recorded(self.world.admin, "k8s.supervisor")
        done = [verb for _, verb, resource, _, status in writes if resource == "virtualmachines" and status < 300]
        return done.count("create"), done.count("delete")

    def judge(self, generation, client):
        """Runs the client of a generation, prints its lines, and returns the number of failures."""
        before = self.machines()
        ended = self.run(client, self.client_options)
        print("".join(f"{self.name}: {line}\n" for line in ended.stdout.splitlines()), end="", flush=True)
        changes = tuple(after - then for after, then in zip(self.machines(), before))
        wanted = (MACHINES_PER_CLIENT, MACHINES_PER_CLIENT)
        counted = verdict(changes == wanted, f"{self.name}: {generation} ledger: machines created and deleted: {changes}, expected {wanted}")
        return (ended.returncode != 0) + counted


def verdict(holds, text):
    print(f"{'ok  ' if holds else 'FAIL'} {text}", flush=True)
    return 0 if holds else 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--provider", default="target/release/provider")
    arguments.add_argument("--sim", default="target/release/sim")
    given = arguments.parse_args()
    end_in_order_on_sigterm()
    failed = 0
    clients = {generation: built(program) for generation, program in CLIENTS.items()}
    with World(given.sim, "sim", 0) as world:
        world.keep = True
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap"}, "stringData": {"user-data": "#cloud-config"}}
        world.supervisor.must("POST", f"/api/v1/namespaces/{world.namespace}/secrets", secret)
        server, autoscaler = certificates(world.dir)
        with Lane("plain text", given.provider, world, "127.0.0.1", [], []) as lane:
            failed += sum(lane.judge(*it) for it in clients.items())
        with Lane("mutual TLS", given.provider, world, "localhost", [
                "--tls-cert-file", server / "tls.crt", "--tls-private-key-file", server / "tls.key", "--client-ca-file", server / "ca.crt",
        ], ["--cert", autoscaler / "tls.crt", "--key", autoscaler / "tls.key", "--cacert", autoscaler / "ca.crt"]) as lane:
            failed += sum(lane.judge(*it) for it in clients.items())
            (world.dir / "strangers").mkdir()
            _, strangers = certificates(world.dir / "strangers")
            for who, options in {
                "a client in plain text": [],
                "a client without certificate": ["--cacert", autoscaler / "ca.crt"],
                "a client with a certificate of another authority": [
                    "--cert", strangers / "tls.crt", "--key", strangers / "tls.key", "--cacert", autoscaler / "ca.crt"],
            }.items():
                ended = lane.run(clients["G3"], ["--patience", "1s", *options])
                refused = ended.returncode == 1 and "ok  " not in ended.stdout and "code = Unavailable" in ended.stdout
                failed += verdict(refused, f"mutual TLS: {who} gets no answer")
                if not refused:
                    print(ended.stdout)
        world.keep = failed > 0
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
