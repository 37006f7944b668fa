"""A simulated vCenter for tests in Python: a class over testcontainers, for you to copy into a project.

    with Sim("--vms=3") as sim:
        url, account = sim.vcenter["url"], sim.vcenter["administrator"]

The class removes the container at the end of the block. `sim.admin(...)` sends a request to the admin port: fault rules,
ledger, events. The engine picks the published ports, so the class replaces the URLs that sim reports by those that are
valid outside the container.
"""
import json
import os
import secrets
import ssl
import urllib.request

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

VCENTER, CLUSTER, ADMIN = 8989, 26443, 8900
# Addresses under which a test that runs in a container reaches published ports. Certificates must
# be valid for them. Add another address with `Sim("--tls-san=ADDRESS")`.
HOSTS = ("172.17.0.1", "host.docker.internal")


class Sim(DockerContainer):
    """A container that runs `sim serve` with the given flags, such as `--vms=3`."""

    def __init__(self, *flags, image=None, **kwargs):
        super().__init__(image or os.environ.get("SIM_IMAGE", "vsphere-lab/sim:0.1.0"), **kwargs)
        self.token = secrets.token_hex(16)
        self.with_env("SIM_ADMIN_TOKEN", self.token)
        self.with_exposed_ports(VCENTER, CLUSTER, ADMIN)
        listen = [f"--{face}-listen=0.0.0.0:{port}"
                  for face, port in (("vcenter", VCENTER), ("cluster", CLUSTER), ("admin", ADMIN))]
        self.with_command(["serve", *listen, *(f"--tls-san={host}" for host in HOSTS), *flags])
        self.with_kwargs(read_only=True, cap_drop=["ALL"], labels={"io.vsphere-lab.testcontainers": "python"})
        # sim prints this line when every listener accepts connections.
        self.waiting_for(LogMessageWaitStrategy("export SIM_ADMIN="))

    def start(self):
        super().start()
        told = self.admin("GET", "/endpoints")
        self.ca_pem = told["certificateAuthority"]
        self.vcenter = {**told["vcenters"][0], "url": self.url(VCENTER, "https")}
        self.cluster = {**told["cluster"], "url": self.url(CLUSTER, "https")}
        return self

    def url(self, port, scheme):
        """Returns the URL of a container's port that is valid outside the container."""
        return f"{scheme}://{self.get_container_host_ip()}:{self.get_exposed_port(port)}"

    def tls(self):
        """Returns an SSL context that trusts only the certificate authority of this sim."""
        return ssl.create_default_context(cadata=self.ca_pem)

    def admin(self, method, path, body=None):
        """Sends one request to the admin port. Returns the parsed answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url(ADMIN, "http") + path, data, method=method,
                                         headers={"Authorization": f"Bearer {self.token}",
                                                  "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def calls(self, operation):
        """Returns the number of calls of an operation, such as `Login`, in the ledger."""
        counts = self.admin("GET", "/ledger?format=counts")
        return sum(it["calls"] for it in counts["operations"] if it["op"] == operation)
