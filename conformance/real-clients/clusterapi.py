"""Plays the controllers of Cluster API and of its infrastructure for the lanes of the real Cluster Autoscaler, with the short
definitions of the kinds in clusterapi/kinds.yaml. Needs only Python's standard library.
"""
import re
import uuid

import lane
from lane import MERGE, NODES

NAMESPACE, CLUSTER = "workloads", "blue"
CAPI = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}"
DEPLOYMENTS, SETS, MACHINES = f"{CAPI}/machinedeployments", f"{CAPI}/machinesets", f"{CAPI}/machines"
VM_OPERATOR = "/apis/vmoperator.vmware.com/v1alpha5"
CLASSES = f"{VM_OPERATOR}/namespaces/{NAMESPACE}/virtualmachineclasses"
IMAGES = f"{VM_OPERATOR}/clustervirtualmachineimages"
SUPERVISOR, GOVMOMI = "vmware.infrastructure.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"
TEMPLATES = {SUPERVISOR: f"/apis/{SUPERVISOR}/v1beta2/namespaces/{NAMESPACE}/vspheremachinetemplates",
             GOVMOMI: f"/apis/{GOVMOMI}/v1beta1/namespaces/{NAMESPACE}/vspheremachinetemplates"}
DELETE = "cluster.x-k8s.io/delete-machine"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
DEPLOYMENT_LABEL, CLUSTER_LABEL = "cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/cluster-name"
FINALIZER = "machine.cluster.x-k8s.io"


def pairs(text):
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


class ClusterApi(lane.Kubelets):
    """Plays the controllers of Cluster API and of the infrastructure, and the kubelets.

    A group is a MachineDeployment with one MachineSet, or a MachineSet of its own. A MachineSet that has too many Machines deletes
    those with the annotation first, then those without Node, as Cluster API does, and then the newest. A Machine gets a provider ID, its Node registers, and then it gets `nodeRef`.
    The Node has the resources, labels and taints that the template, its class and image, and the annotations of the group describe.
    """

    def __init__(self, cluster, management):
        super().__init__(cluster)
        self.management = management
        self.n_created = 0
        self.deleted = []  # (group, Machine, True if it had the annotation) in the order of deletion

    def step(self):
        deployments, sets = (self.management.must("GET", path)["items"] for path in (DEPLOYMENTS, SETS))
        groups = {it["metadata"]["name"]: it for it in deployments + [it for it in sets if "ownerReferences" not in it["metadata"]]}
        machines = self.management.must("GET", MACHINES)["items"]
        for group in groups.values():
            self.keep_size(group, [it for it in machines if it["metadata"]["labels"][DEPLOYMENT_LABEL] == group["metadata"]["name"]])
        nodes = self.node_names()
        for machine in self.management.must("GET", MACHINES)["items"]:
            name, group = machine["metadata"]["name"], groups.get(machine["metadata"]["labels"][DEPLOYMENT_LABEL])
            if "deletionTimestamp" in machine["metadata"]:
                self.cluster.ask("DELETE", f"{NODES}/{name}")
                nodes.discard(name)
                self.management.ask("PATCH", f"{MACHINES}/{name}", {"metadata": {"finalizers": None}}, MERGE)
            elif self.joins and group and "nodeRef" not in machine.get("status", {}):
                self.join_cluster(machine, group, name in nodes)
                nodes.add(name)
        self.run_pods(nodes)

    def keep_size(self, group, machines):
        """Creates the MachineSet of a group, and creates or deletes Machines until their number is that of the group."""
        name, spec, machine_set = group["metadata"]["name"], group["spec"], group
        own = {"labels": {CLUSTER_LABEL: CLUSTER, DEPLOYMENT_LABEL: name}}
        if group["kind"] == "MachineDeployment":
            machine_set = self.set_of(group, own)
        kept = [it for it in machines if "deletionTimestamp" not in it["metadata"]]
        if "cluster.x-k8s.io/paused" in group["metadata"].get("annotations", {}):
            return
        for _ in range(spec["replicas"] - len(kept)):
            self.n_created += 1
            self.management.must("POST", MACHINES, {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": f"{name}-{self.n_created}", **own, "finalizers": [FINALIZER],
                             "ownerReferences": [owner(machine_set)]},
                "spec": spec["template"]["spec"]})
        for machine in sorted(kept, key=victims_first)[:max(len(kept) - spec["replicas"], 0)]:
            it = machine["metadata"]
            self.deleted.append((name, it["name"], DELETE in it.get("annotations", {})))
            self.management.must("DELETE", f"{MACHINES}/{it['name']}")
        if group.get("status", {}).get("replicas") != len(kept):
            self.management.ask("PATCH", f"{path_of(group)}/status", {
                "status": {"replicas": len(kept), "selector": f"{DEPLOYMENT_LABEL}={name}"}}, MERGE)

    def set_of(self, group, own):
        """Gives the MachineSet of a MachineDeployment its size, and returns it. Creates it the first time."""
        name, spec = group["metadata"]["name"] + "-1", group["spec"]
        status, answer = self.management.ask("PATCH", f"{SETS}/{name}", {"spec": {"replicas": spec["replicas"]}}, MERGE)
        if status != 404:
            return answer
        return self.management.must("POST", SETS, {
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "metadata": {"name": name, **own, "annotations": {"machinedeployment.clusters.x-k8s.io/revision": "1"},
                         "ownerReferences": [owner(group)]},
            "spec": {**spec, "template": {**spec["template"], "metadata": own}}})

    def join_cluster(self, machine, group, is_registered):
        """Gives a Machine its provider ID, registers its Node unless a former step did, and sets `nodeRef`."""
        name, annotations = machine["metadata"]["name"], group["metadata"].get("annotations", {})
        provider_id = f"vsphere://{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"
        self.management.must("PATCH", f"{MACHINES}/{name}", {"spec": {"providerID": provider_id}}, MERGE)
        resources, labels = self.hardware(machine["spec"]["infrastructureRef"])
        if CAPACITY + "maxPods" in annotations:
            resources["pods"] = annotations[CAPACITY + "maxPods"]
        if CAPACITY + "gpu-count" in annotations:
            resources[annotations[CAPACITY + "gpu-type"]] = annotations[CAPACITY + "gpu-count"]
        labels |= group["spec"]["template"]["metadata"].get("labels", {})
        labels |= pairs(annotations.get(CAPACITY + "labels", ""))
        taints = {}
        for taint in group["spec"]["template"]["spec"].get("taints", []):
            taints[taint["key"], taint["effect"]] = taint.get("value", "")
        for key, value, effect in re.findall(r"([^,=:]+)(?:=([^,:]*))?:(\w+)", annotations.get(CAPACITY + "taints", "")):
            taints[key, effect] = value
        if not is_registered:
            self.register(name, provider_id, labels, resources, {
                "cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": NAMESPACE, CLUSTER_LABEL: CLUSTER,
            }, [{"key": key, "value": value, "effect": effect} for (key, effect), value in taints.items()] or None)
        self.management.must("PATCH", f"{MACHINES}/{name}/status", {"status": {"nodeRef": {"name": name}, "phase": "Running"}}, MERGE)

    def hardware(self, reference):
        """Returns the resources and labels of the machines of a template."""
        group = reference.get("apiGroup") or reference["apiVersion"].split("/")[0]
        spec = self.management.must("GET", f"{TEMPLATES[group]}/{reference['name']}")["spec"]["template"]["spec"]
        if group == GOVMOMI:
            return {"cpu": str(max(2, spec["numCPUs"])), "memory": f"{spec['memoryMiB']}Mi"}, {}
        hardware = self.management.must("GET", f"{CLASSES}/{spec['className']}")["spec"]["hardware"]
        resources = {"cpu": str(hardware["cpus"]), "memory": hardware["memory"]}
        n_gpus = len(hardware.get("devices", {}).get("vgpuDevices", []))
        if n_gpus:
            resources["nvidia.com/gpu"] = str(n_gpus)
        image = self.management.must("GET", f"{IMAGES}/{spec['imageName']}")
        properties = {it["key"]: it["value"] for it in image.get("status", {}).get("vmwareSystemProperties", [])}
        return resources, {"kubernetes.io/arch": properties.get("vmware-system.tkr.os-arch", "amd64")}


def victims_first(machine):
    metadata = machine["metadata"]
    return (DELETE not in metadata.get("annotations", {}), "nodeRef" in machine.get("status", {}), -int(metadata["name"].rpartition("-")[2]))


def path_of(group):
    return f"{DEPLOYMENTS if group['kind'] == 'MachineDeployment' else SETS}/{group['metadata']['name']}"


def owner(document):
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "name": document["metadata"]["name"],
            "uid": document["metadata"]["uid"], "controller": True}
