#!/usr/bin/env python3
"""Runs the same kubectl commands against the Supervisor of `sim serve` and a real kube-apiserver with the same definitions and objects.

  conformance/real-clients/kubectl_supervisor.py [--kubectl KUBECTL] [--sim SIM] [--against sim|real] [--only TEXT] [--write]

Works as kubectl.py does, with the commands in kubectl-supervisor/commands. It runs the commands below the heading `VERSION` once for
each version of VM Operator's kinds. The real server has no conversion webhook, so its answers are right only in the version that it
stores. So for each older version the script replaces the definitions on the real server by ones that store this version, and copies
the objects as the Supervisor shows them in it. The real server has no VM Operator either. So the commands create objects with the
annotation that pauses VM Operator, and with the values that its webhook would fill in. `--against real` compares two real servers,
both with objects from the sim.
"""
import contextlib

import comparison
import servers
import transcripts

VERSIONS = [f"v1alpha{n}" for n in (6, 5, 4, 3, 2, 1)]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "vmoperator.vmware.com"
CONVERTED = {"virtualmachineclasses": True, "clustervirtualmachineimages": False, "virtualmachines": True}  # True if namespaced
ZONES = {"availabilityzones": False, "zones": True}
# In older versions an annotation contains the object in the newest version as one line. The comparison drops it, because its text does
# not come from kubectl.
NORMAL = [
    (r"^.*vmoperator\.vmware\.com/conversion: .*\n", ""),
    (r'^.*"vmoperator\.vmware\.com/conversion": .*\n', ""),
    (r"vmoperator\.vmware\.com/conversion:\n +\{.*\n", ""),
]


def path(group, version, resource, namespaced):
    return f"/apis/{group}/{version}/{'namespaces/lab/' if namespaced else ''}{resource}"


class Copy:
    """Copies the definitions and objects of the Supervisor `source` to the server `real`."""

    def __init__(self, source, real):
        self.source, self.real = source, real
        found = source.must("GET", DEFINITIONS)["items"]
        self.definitions = {it["metadata"]["name"]: it for it in found}

    def begin(self):
        """Copies all definitions and objects, in the newest version."""
        self.real.must("POST", "/api/v1/namespaces", {"metadata": {"name": "lab"}})
        for name, definition in self.definitions.items():
            self.define(name, definition["spec"])
        self.established(self.definitions)
        for resource, namespaced in ZONES.items():
            self.objects(path("topology.tanzu.vmware.com", "v1alpha1", resource, namespaced))
        for resource, namespaced in CONVERTED.items():
            self.objects(path(GROUP, VERSIONS[0], resource, namespaced))
        self.version = VERSIONS[0]

    def serve(self, version):
        """Makes the server store `version`, and copies the objects in that version."""
        if version not in VERSIONS or version == self.version:
            return
        names = [f"{resource}.{GROUP}" for resource in CONVERTED]
        for resource, namespaced in CONVERTED.items():
            here = path(GROUP, self.version, resource, namespaced)
            for it in self.real.must("GET", here)["items"]:
                free = {"metadata": {"finalizers": None}}
                self.real.must("PATCH", f"{here}/{it['metadata']['name']}", free, "application/merge-patch+json")
            self.real.must("DELETE", f"{DEFINITIONS}/{resource}.{GROUP}")
        for name in names:
            servers.wait_until(f"{name} is gone", lambda: self.real.ask("GET", f"{DEFINITIONS}/{name}")[0] == 404)  # pylint: disable=W0640
            spec = self.definitions[name]["spec"]
            versions = [{**it, "storage": it["name"] == version} for it in spec["versions"]]
            self.define(name, {**spec, "versions": versions, "conversion": {"strategy": "None"}})
        self.established(names)
        self.version = version
        for resource, namespaced in CONVERTED.items():
            self.objects(path(GROUP, version, resource, namespaced))

    def define(self, name, spec):
        self.real.must("POST", DEFINITIONS, {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": spec})

    def established(self, names):
        def all_are():
            found = self.real.must("GET", DEFINITIONS)["items"]
            there = {it["metadata"]["name"] for it in found for condition in it["status"].get("conditions") or []
                     if (condition["type"], condition["status"]) == ("Established", "True")}
            return there.issuperset(names)
        servers.wait_until("definitions are established", all_are)

    def objects(self, collection):
        """Copies all objects of a kind, with their statuses."""
        servers.wait_until(f"{collection} is served", lambda: self.real.ask("GET", collection)[0] == 200)
        for it in self.source.must("GET", collection)["items"]:
            for drawn in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
                it["metadata"].pop(drawn, None)
            status = it.pop("status", None)
            made = self.real.must("POST", collection, it)
            if status is not None:
                self.real.must("PUT", f"{collection}/{it['metadata']['name']}/status", {**made, "status": status})


def main():
    suite = transcripts.Suite(servers.HERE / "kubectl-supervisor", VERSIONS, NORMAL)
    args = transcripts.options(suite, __doc__, sim_always=True)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(servers.Supervisor(args.sim, "supervisor"))
        real = stack.enter_context(servers.Real())
        other = stack.enter_context(servers.Real("other")) if args.against == "real" else source
        copies = [Copy(source, server) for server in {real, other} - {source}]

        def entered(heading):
            for copy in copies:
                copy.serve(heading)
        for copy in copies:
            copy.begin()
        shells = [transcripts.Shell(suite, server, args.client) for server in (real, other)]
        failed = transcripts.compare(suite, *shells, args, entered)
        for server in (source, real, other):
            server.keep = failed > 0
        return failed


if __name__ == "__main__":
    comparison.run(main)
