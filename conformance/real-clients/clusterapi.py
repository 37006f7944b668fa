"""Lane of the real Cluster Autoscaler with its own Cluster API provider: a management cluster with short definitions of the kinds
(clusterapi/kinds.yaml), `provider capacity`, and the controllers of Cluster API, which this module plays.

The real API server is the management cluster and the workload cluster. `provider capacity` and the autoscaler each use the
management cluster as a user with the role of the documentation and no other. Needs only Python's standard library.
"""
import re
import uuid

import lane
from lane import MERGE, NODES
from servers import HERE, ROOT, wait_until

NAMESPACE, CLUSTER = "workloads", "blue"
CAPI = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}"
DEPLOYMENTS, SETS, MACHINES = f"{CAPI}/machinedeployments", f"{CAPI}/machinesets", f"{CAPI}/machines"
VM_OPERATOR = "/apis/vmoperator.vmware.com/v1alpha5"
CLASSES = f"{VM_OPERATOR}/namespaces/{NAMESPACE}/virtualmachineclasses"
IMAGES = f"{VM_OPERATOR}/clustervirtualmachineimages"
SUPERVISOR, GOVMOMI = "vmware.infrastructure.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"
TEMPLATES = {SUPERVISOR: f"/apis/{SUPERVISOR}/v1beta2/namespaces/{NAMESPACE}/vspheremachinetemplates",
             GOVMOMI: f"/apis/{GOVMOMI}/v1beta1/namespaces/{NAMESPACE}/vspheremachinetemplates"}
DELETE, MAX = "cluster.x-k8s.io/delete-machine", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
DEPLOYMENT_LABEL, CLUSTER_LABEL = "cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/cluster-name"
FINALIZER = "machine.cluster.x-k8s.io"
# Users of the API server of cluster.sh without any rights, and the roles that they get here.
ROLES = {"alice": ROOT / "provider/tests/it/capacity/role.yaml", "bob": HERE / "clusterapi/autoscaler-role.yaml"}


def pairs(text):
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


class ClusterApi(lane.Kubelets):
    """Plays the controllers of Cluster API and of the infrastructure, and the kubelets.

    A MachineDeployment has one MachineSet. A MachineSet that has too many Machines deletes those with the annotation first, then those
    without Node, as Cluster API does, and then the newest. A Machine gets a provider ID, its Node registers, and then it gets `nodeRef`. The Node has the resources, labels and
    taints that the template, its class and image, and the annotations of the group describe.
    """

    def __init__(self, cluster):
        super().__init__(cluster)
        self.n_created = 0
        self.deleted = []  # (group, Machine, True if it had the annotation) in the order of deletion

    def step(self):
        groups = {it["metadata"]["name"]: it for it in self.cluster.must("GET", DEPLOYMENTS)["items"]}
        machines = self.cluster.must("GET", MACHINES)["items"]
        for group in groups.values():
            self.keep_size(group, [it for it in machines if it["metadata"]["labels"][DEPLOYMENT_LABEL] == group["metadata"]["name"]])
        nodes = self.node_names()
        for machine in self.cluster.must("GET", MACHINES)["items"]:
            name, group = machine["metadata"]["name"], groups.get(machine["metadata"]["labels"][DEPLOYMENT_LABEL])
            if "deletionTimestamp" in machine["metadata"]:
                self.cluster.ask("DELETE", f"{NODES}/{name}")
                nodes.discard(name)
                self.cluster.ask("PATCH", f"{MACHINES}/{name}", {"metadata": {"finalizers": None}}, MERGE)
            elif self.joins and group and "nodeRef" not in machine.get("status", {}):
                self.join_cluster(machine, group, name in nodes)
                nodes.add(name)
        self.run_pods(nodes)

    def keep_size(self, group, machines):
        """Creates the MachineSet of a group, and creates or deletes Machines until their number is that of the group."""
        name, spec, paused = group["metadata"]["name"], group["spec"], "cluster.x-k8s.io/paused" in group["metadata"].get("annotations", {})
        own = {"labels": {CLUSTER_LABEL: CLUSTER, DEPLOYMENT_LABEL: name}}
        status, answer = self.cluster.ask("PATCH", f"{SETS}/{name}-1", {"spec": {"replicas": spec["replicas"]}}, MERGE)
        if status == 404:
            answer = self.cluster.must("POST", SETS, {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
                "metadata": {"name": f"{name}-1", **own, "annotations": {"machinedeployment.clusters.x-k8s.io/revision": "1"},
                             "ownerReferences": [owner(group, "MachineDeployment")]},
                "spec": {**spec, "template": {**spec["template"], "metadata": own}}})
        kept = [it for it in machines if "deletionTimestamp" not in it["metadata"]]
        if paused:
            return
        for _ in range(spec["replicas"] - len(kept)):
            self.n_created += 1
            self.cluster.must("POST", MACHINES, {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": f"{name}-{self.n_created}", **own, "finalizers": [FINALIZER],
                             "ownerReferences": [owner(answer, "MachineSet")]},
                "spec": spec["template"]["spec"]})
        for machine in sorted(kept, key=victims_first)[:max(len(kept) - spec["replicas"], 0)]:
            it = machine["metadata"]
            self.deleted.append((name, it["name"], DELETE in it.get("annotations", {})))
            self.cluster.must("DELETE", f"{MACHINES}/{it['name']}")
        if group.get("status", {}).get("replicas") != len(kept):
            self.cluster.ask("PATCH", f"{DEPLOYMENTS}/{name}/status", {"status": {"replicas": len(kept), "selector": f"{DEPLOYMENT_LABEL}={name}"}}, MERGE)

    def join_cluster(self, machine, group, is_registered):
        """Gives a Machine its provider ID, registers its Node unless a former step did, and sets `nodeRef`."""
        name, annotations = machine["metadata"]["name"], group["metadata"].get("annotations", {})
        provider_id = f"vsphere://{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"
        self.cluster.must("PATCH", f"{MACHINES}/{name}", {"spec": {"providerID": provider_id}}, MERGE)
        resources, labels = self.hardware(machine["spec"]["infrastructureRef"])
        if CAPACITY + "maxPods" in annotations:
            resources["pods"] = annotations[CAPACITY + "maxPods"]
        if CAPACITY + "gpu-count" in annotations:
            resources[annotations[CAPACITY + "gpu-type"]] = annotations[CAPACITY + "gpu-count"]
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
        self.cluster.must("PATCH", f"{MACHINES}/{name}/status", {"status": {"nodeRef": {"name": name}, "phase": "Running"}}, MERGE)

    def hardware(self, reference):
        """Returns the resources and labels of the machines of a template."""
        group = reference.get("apiGroup") or reference["apiVersion"].split("/")[0]
        spec = self.cluster.must("GET", f"{TEMPLATES[group]}/{reference['name']}")["spec"]["template"]["spec"]
        if group == GOVMOMI:
            return {"cpu": str(max(2, spec["numCPUs"])), "memory": f"{spec['memoryMiB']}Mi"}, {}
        hardware = self.cluster.must("GET", f"{CLASSES}/{spec['className']}")["spec"]["hardware"]
        resources = {"cpu": str(hardware["cpus"]), "memory": hardware["memory"]}
        n_gpus = len(hardware.get("devices", {}).get("vgpuDevices", []))
        if n_gpus:
            resources["nvidia.com/gpu"] = str(n_gpus)
        image = self.cluster.must("GET", f"{IMAGES}/{spec['imageName']}")
        properties = {it["key"]: it["value"] for it in image["status"]["vmwareSystemProperties"]}
        return resources, {"kubernetes.io/arch": properties.get("vmware-system.tkr.os-arch", "amd64")}


def victims_first(machine):
    metadata = machine["metadata"]
    return (DELETE not in metadata.get("annotations", {}), "nodeRef" in machine.get("status", {}), -int(metadata["name"].rpartition("-")[2]))


def owner(document, kind):
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": document["metadata"]["name"], "uid": document["metadata"]["uid"],
            "controller": True}


class Lane(lane.Lane):
    """The management cluster, our reconciler and the autoscaler of the lane."""

    def __init__(self, binary, provider, cluster):
        super().__init__(cluster, ClusterApi(cluster))
        self.binary, self.provider = binary, provider
        self.reconciler = None

    def start(self):
        """Defines the kinds and roles, and starts everything except the autoscaler and the reconciler."""
        definitions = (HERE / "clusterapi/kinds.yaml").read_text().split("\n---\n")
        for text in definitions:
            self.cluster.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text, "application/yaml")
        self.cluster.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for path in (DEPLOYMENTS, SETS, MACHINES, CLASSES, IMAGES, *TEMPLATES.values()):
            wait_until(f"{path} is not served", lambda path=path: self.cluster.ask("GET", path)[0] == 200)
        for user, file in ROLES.items():
            role = self.cluster.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", file.read_text(), "application/yaml")
            group = "rbac.authorization.k8s.io"
            self.cluster.must("POST", f"/apis/{group}/v1/clusterrolebindings", {
                "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}]})
            (self.folder / user).write_text(self.cluster.kubeconfig.read_text().replace(self.cluster.token, f"{user}-token"))
        # A Node of another platform, as the control plane of the workload cluster is one.
        self.kubelets.register("control-plane", "kind://control-plane", {}, {"cpu": "2", "memory": "4Gi"},
                               taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        self.start_cluster()
        self.autoscaler_process(self.binary, "--cloud-provider=clusterapi", f"--cloud-config={self.folder / 'bob'}",
                                f"--node-group-auto-discovery=clusterapi:namespace={NAMESPACE},clusterName={CLUSTER}")

    def reconcile(self, *flags):
        """Runs `provider capacity` with these flags, and no other one."""
        command = [self.provider, "capacity", "--kubeconfig", self.folder / "alice", "--namespace", NAMESPACE, "--v", "4", *flags]
        if self.reconciler is None:
            self.reconciler = self.process("reconciler", command)
        elif self.reconciler.command != command or self.reconciler.process.poll() is not None:
            self.reconciler.end()
            self.reconciler.command = command
            self.reconciler.start()

    def no_reconciler(self):
        if self.reconciler:
            self.reconciler.end()

    # ---- what a scenario does

    def create_class(self, name, cpus, memory, vgpus=()):
        devices = {"devices": {"vgpuDevices": [{"profileName": it} for it in vgpus]}} if vgpus else {}
        self.cluster.must("POST", CLASSES, {
            "apiVersion": "vmoperator.vmware.com/v1alpha5", "kind": "VirtualMachineClass", "metadata": {"name": name},
            "spec": {"hardware": {"cpus": cpus, "memory": memory, **devices}}})

    def change_class(self, name, **hardware):
        self.cluster.must("PATCH", f"{CLASSES}/{name}", {"spec": {"hardware": hardware}}, MERGE)

    def create_image(self, name, **properties):
        self.cluster.must("POST", IMAGES, {
            "apiVersion": "vmoperator.vmware.com/v1alpha5", "kind": "ClusterVirtualMachineImage", "metadata": {"name": name}})
        listed = [{"key": f"vmware-system.tkr.os-{key}", "value": value} for key, value in properties.items()]
        self.cluster.must("PATCH", f"{IMAGES}/{name}/status", {"status": {"vmwareSystemProperties": listed}}, MERGE)

    def create_template(self, name, api_group=SUPERVISOR, **spec):
        version = TEMPLATES[api_group].split("/")[3]
        self.cluster.must("POST", TEMPLATES[api_group], {
            "apiVersion": f"{api_group}/{version}", "kind": "VSphereMachineTemplate", "metadata": {"name": name},
            "spec": {"template": {"spec": spec}}})

    def create_group(self, name, reference, annotations=None, labels=None, taints=None, most=3):
        """Creates a MachineDeployment without Machines. `reference` names its template as (API group, name); `labels` and `taints` are
        those of its Machines."""
        api_group, template = reference
        self.cluster.must("POST", DEPLOYMENTS, {
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": name, "labels": {CLUSTER_LABEL: CLUSTER}, "annotations": {MAX: str(most), **(annotations or {})}},
            "spec": {"clusterName": CLUSTER, "replicas": 0, "selector": {"matchLabels": {DEPLOYMENT_LABEL: name}}, "template": {
                "metadata": {"labels": labels or {}},
                "spec": {"clusterName": CLUSTER, "bootstrap": {"dataSecretName": "bootstrap"}, "taints": taints or [],
                         "infrastructureRef": {"apiGroup": api_group, "kind": "VSphereMachineTemplate", "name": template}}}}})

    def change_template(self, group, reference):
        """Makes the MachineDeployment name another template, in the words of v1beta1."""
        api_group, template = reference
        version = TEMPLATES[api_group].split("/")[3]
        self.cluster.must("PATCH", f"{DEPLOYMENTS}/{group}", {"spec": {"template": {"spec": {"infrastructureRef": {
            "apiGroup": None, "apiVersion": f"{api_group}/{version}", "kind": "VSphereMachineTemplate", "name": template}}}}}, MERGE)

    def annotate(self, group, annotations):
        self.cluster.must("PATCH", f"{DEPLOYMENTS}/{group}", {"metadata": {"annotations": annotations}}, MERGE)

    def pods(self, name, replicas, requests=None, **spec):
        """Creates a ReplicaSet, or changes the number of its Pods."""
        self.replica_set(name, replicas, {"resources": {"requests": requests, "limits": {
            key: value for key, value in (requests or {}).items() if "/" in key}}}, **spec)

    def clear(self, app, group):
        """Removes the Pods and, as soon as the autoscaler has removed the Machines, the group. Returns the seconds until then."""
        self.pods(app, 0)
        seconds = self.until(f"{group}: Machines are left", lambda: self.size(group) == 0 and not self.machines(group), 90)
        self.remove(group)
        return seconds

    def remove(self, group):
        """Removes a group without Machines. The garbage collector removes its MachineSet."""
        self.cluster.must("DELETE", f"{DEPLOYMENTS}/{group}")

    def reset(self):
        """Removes all Pods, groups, Machines and Nodes of Machines, after a scenario that failed."""
        self.no_pods()
        self.kubelets.joins = True
        for it in self.cluster.must("GET", DEPLOYMENTS)["items"]:
            self.cluster.must("PATCH", f"{DEPLOYMENTS}/{it['metadata']['name']}", {
                "metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}, "spec": {"replicas": 0}}, MERGE)
        self.until("Machines are left", lambda: not self.machines(), 60)
        for it in self.cluster.must("GET", DEPLOYMENTS)["items"]:
            self.remove(it["metadata"]["name"])

    # ---- what a scenario looks at

    def size(self, group):
        return self.cluster.must("GET", f"{DEPLOYMENTS}/{group}")["spec"]["replicas"]

    def machines(self, group=None):
        return sorted(it["metadata"]["name"] for it in self.cluster.must("GET", MACHINES)["items"]
                      if group in (None, it["metadata"]["labels"][DEPLOYMENT_LABEL]))

    def published(self, template):
        """Returns the status that the reconciler has given to a template of a Supervisor."""
        return self.cluster.must("GET", f"{TEMPLATES[SUPERVISOR]}/{template}").get("status", {})

    def grows(self, app, group, size=1, seconds=60):
        """Waits until a group has this size and all Pods run. Returns the seconds until the first."""
        took = self.until(f"{group}: the size is not {size}", lambda: self.size(group) == size, seconds)
        wanted = self.cluster.must("GET", f"{lane.REPLICA_SETS}/{app}")["spec"]["replicas"]
        self.until(f"{app}: not all Pods run", lambda: self.running(app) == wanted, seconds)
        return took

    def refused(self, app, group, why=""):
        """Waits until the autoscaler has said of the Pods that they start no machine, for this reason, and has made three loops more.
        Returns its reason. Raises Failed if the group grew meanwhile."""
        said = lambda: [it for it in self.events("NotTriggerScaleUp", app + "-") if why in it]
        self.until(f"{app}: no event NotTriggerScaleUp {why}", lambda: said() or self.size(group))
        loops = set()
        self.until("the autoscaler makes no loops", lambda: loops.add(self.loop()) or len(loops) > 3)
        lane.expect(not self.size(group), f"{group} grew to {self.size(group)} for Pods that must not start a machine\n{self.evidence()}")
        return said()[-1].partition("scale-up: ")[2] or "no group is listed"

    def loop(self):
        """Returns the time of the autoscaler's last loop."""
        it = self.status()
        return it and it["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/last-updated"]

    def writes_of(self, agent):
        """Returns the writes of a client whose user agent has this prefix, as (verb, resource, name)."""
        return [(verb, resource, name) for who, verb, resource, name, code in self.cluster.writes() if who.startswith(agent) and code < 300]

    def state(self):
        groups = {it["metadata"]["name"]: it["spec"]["replicas"] for it in self.cluster.must("GET", DEPLOYMENTS)["items"]}
        templates = {it["metadata"]["name"]: it.get("status") for it in self.cluster.must("GET", TEMPLATES[SUPERVISOR])["items"]}
        return {"groups": groups, "machines": self.machines(), "deleted": self.kubelets.deleted[-3:], "templates": templates}
