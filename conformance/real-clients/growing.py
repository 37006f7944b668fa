"""Lane of the real Cluster Autoscaler over Cluster API: a management cluster with short definitions of the kinds, `provider capacity`,
and the autoscaler with its own Cluster API provider, or with our server, `provider autoscaler --backend cluster-api`.

The real API server is the management cluster and the workload cluster. The autoscaler, our server and `provider capacity` use the
management cluster as users with the roles of the documentation and no other. Needs only Python's standard library.
"""
import calendar
import json
import time
from pathlib import Path

import lane
from clusterapi import (CLASSES, CLUSTER, CLUSTER_LABEL, DEPLOYMENT_LABEL, DEPLOYMENTS, IMAGES, MACHINES, NAMESPACE, SETS, SUPERVISOR, TEMPLATES,
                        ClusterApi)
from lane import MERGE
from ports import free_port
from servers import HERE, ROOT, recorded, wait_until

MAX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


class Lane(lane.Lane):
    """The management cluster, our reconciler and the autoscaler of the lane.

    With `serves` the autoscaler's own provider is not used. Our server, `provider autoscaler`, gives it the groups. With a `world` its
    simulated Supervisor is the management cluster.
    """

    def __init__(self, binary, provider, cluster, serves, world=None):
        self.management = world.supervisor if world else cluster
        super().__init__(cluster, ClusterApi(cluster, self.management))
        self.binary, self.provider, self.serves, self.world = binary, provider, serves, world
        self.reconciler = None
        self.paths = {}  # path of each group
        # Users of the API server of cluster.sh without any rights, and the roles that they get here.
        self.roles = {"alice": ROOT / "provider/tests/it/capacity/role.yaml",
                      "bob": ROOT / "provider/tests/it/autoscaler/role.yaml" if serves else HERE / "clusterapi/autoscaler-role.yaml"}

    def start(self):
        """Defines the kinds and roles, and starts everything except the autoscaler and the reconciler."""
        self.define()
        for path in (DEPLOYMENTS, SETS, MACHINES, CLASSES, IMAGES, *TEMPLATES.values()):
            wait_until(f"{path} is not served", lambda path=path: self.management.ask("GET", path)[0] == 200)
        if not self.world:
            self.cluster.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for user, file in self.roles.items():
            if self.world:
                # The simulated Supervisor has an administrator only.
                (self.folder / user).write_text(Path(self.world.known["SIM_SUPERVISOR_KUBECONFIG"]).read_text())
            else:
                self.grant(user, file)
        # A Node of another platform, as the control plane of the workload cluster is one.
        self.kubelets.register("control-plane", "kind://control-plane", {}, {"cpu": "2", "memory": "4Gi"},
                               taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        self.start_cluster()
        if not self.serves:
            self.autoscaler_process(self.binary, "--cloud-provider=clusterapi", f"--cloud-config={self.folder / 'bob'}",
                                    f"--node-group-auto-discovery=clusterapi:namespace={NAMESPACE},clusterName={CLUSTER}")
            return
        address = f"127.0.0.1:{free_port()}"
        self.process("server", [
            self.provider, "autoscaler", "--backend", "cluster-api", "--management-kubeconfig", self.folder / "bob", "--namespace", NAMESPACE,
            "--cluster-name", CLUSTER, "--listen", address, "--v", "4"])
        self.grpc_autoscaler(self.binary, address)

    def define(self):
        """Defines the kinds. A Supervisor has those of VM Operator already."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for text in (HERE / "clusterapi/kinds.yaml").read_text().split("\n---\n"):
            definition = self.cluster.must("POST", path, text, "application/yaml")
            if self.world and definition["spec"]["group"] != "vmoperator.vmware.com":
                definition["metadata"] = {"name": definition["metadata"]["name"]}
                self.management.must("POST", path, {**definition, "status": None})

    def grant(self, user, file):
        """Gives a user the role in a file and no other, and writes the kubeconfig of the user."""
        group = "rbac.authorization.k8s.io"
        role = self.management.must("POST", f"/apis/{group}/v1/clusterroles", file.read_text(), "application/yaml")
        self.management.must("POST", f"/apis/{group}/v1/clusterrolebindings", {
            "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]})
        (self.folder / user).write_text(self.cluster.kubeconfig.read_text().replace(self.cluster.token, f"{user}-token"))

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
        self.management.must("POST", CLASSES, {
            "apiVersion": "vmoperator.vmware.com/v1alpha5", "kind": "VirtualMachineClass", "metadata": {"name": name},
            "spec": {"hardware": {"cpus": cpus, "memory": memory, **devices}}})

    def change_class(self, name, **hardware):
        self.management.must("PATCH", f"{CLASSES}/{name}", {"spec": {"hardware": hardware}}, MERGE)

    def create_image(self, name, **properties):
        self.management.must("POST", IMAGES, {
            "apiVersion": "vmoperator.vmware.com/v1alpha5", "kind": "ClusterVirtualMachineImage", "metadata": {"name": name}})
        listed = [{"key": f"vmware-system.tkr.os-{key}", "value": value} for key, value in properties.items()]
        self.management.must("PATCH", f"{IMAGES}/{name}/status", {"status": {"vmwareSystemProperties": listed}}, MERGE)

    def create_template(self, name, api_group=SUPERVISOR, **spec):
        version = TEMPLATES[api_group].split("/")[3]
        self.management.must("POST", TEMPLATES[api_group], {
            "apiVersion": f"{api_group}/{version}", "kind": "VSphereMachineTemplate", "metadata": {"name": name},
            "spec": {"template": {"spec": spec}}})

    def create_group(self, name, reference, annotations=None, labels=None, taints=None, kind="MachineDeployment"):
        """Creates a group without Machines that may grow to three. `reference` names its template as (API group, name); `labels` and `taints` are
        those of its Machines."""
        api_group, template = reference
        collection = DEPLOYMENTS if kind == "MachineDeployment" else SETS
        self.paths[name] = f"{collection}/{name}"
        self.management.must("POST", collection, {
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "labels": {CLUSTER_LABEL: CLUSTER}, "annotations": {MAX: "3", **(annotations or {})}},
            "spec": {"clusterName": CLUSTER, "replicas": 0, "selector": {"matchLabels": {DEPLOYMENT_LABEL: name}}, "template": {
                "metadata": {"labels": labels or {}},
                "spec": {"clusterName": CLUSTER, "bootstrap": {"dataSecretName": "bootstrap"}, "taints": taints or [],
                         "infrastructureRef": {"apiGroup": api_group, "kind": "VSphereMachineTemplate", "name": template}}}}})

    def change_template(self, group, reference):
        """Makes the group name another template, in the words of v1beta1."""
        api_group, template = reference
        version = TEMPLATES[api_group].split("/")[3]
        self.management.must("PATCH", self.paths[group], {"spec": {"template": {"spec": {"infrastructureRef": {
            "apiGroup": None, "apiVersion": f"{api_group}/{version}", "kind": "VSphereMachineTemplate", "name": template}}}}}, MERGE)

    def annotate(self, group, annotations):
        self.management.must("PATCH", self.paths[group], {"metadata": {"annotations": annotations}}, MERGE)

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
        self.management.must("DELETE", self.paths.pop(group))

    def reset(self):
        """Removes all Pods, groups, Machines and Nodes of Machines, after a scenario that failed."""
        self.no_pods()
        self.kubelets.joins = True
        for path in self.paths.values():
            self.management.must("PATCH", path, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}, "spec": {"replicas": 0}}, MERGE)
        self.until("Machines are left", lambda: not self.machines(), 60)
        for group in list(self.paths):
            self.remove(group)

    # ---- what a scenario looks at

    def size(self, group):
        return self.management.must("GET", self.paths[group])["spec"]["replicas"]

    def machines(self, group=None):
        return sorted(it["metadata"]["name"] for it in self.management.must("GET", MACHINES)["items"]
                      if group in (None, it["metadata"]["labels"][DEPLOYMENT_LABEL]))

    def age_of_node(self, group):
        """Returns the age of the group's oldest Node in seconds, by the clock of the API server."""
        nodes = [it["metadata"] for it in self.cluster.must("GET", lane.NODES)["items"]]
        made = [it["creationTimestamp"] for it in nodes if it["name"].startswith(group + "-")]
        return time.time() - min(calendar.timegm(time.strptime(it, "%Y-%m-%dT%H:%M:%SZ")) for it in made)

    def published(self, template):
        """Returns the status that the reconciler has given to a template of a Supervisor."""
        return self.management.must("GET", f"{TEMPLATES[SUPERVISOR]}/{template}").get("status", {})

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

    def scaling_writes(self):
        """Returns the writes of the autoscaler, or of our server, to Machines and groups, as (verb, resource, name)."""
        if self.world:
            others = ("Python", "cluster-autoscaler") if self.serves else ("Python", "provider")
            writes = (it[1:] for it in recorded(self.world.admin, "k8s.supervisor") if not it[0].startswith(others))
        else:
            writes = written_by(self.cluster.audit, "bob")
        return [(verb, resource, name) for verb, resource, name, code in writes if resource.startswith("machine") and code < 300]

    def state(self):
        groups = {group: self.size(group) for group in self.paths}
        templates = {it["metadata"]["name"]: it.get("status") for it in self.management.must("GET", TEMPLATES[SUPERVISOR])["items"]}
        return {"groups": groups, "machines": self.machines(), "deleted": self.kubelets.deleted[-3:], "templates": templates}


def written_by(audit, user):
    """Yields the writes of a user in an audit log: (verb, resource, name, status)."""
    for it in map(json.loads, audit.read_text().splitlines()):
        thing = it["objectRef"]
        if it["user"]["username"] == user:
            resource = "/".join(filter(None, (thing["resource"], thing.get("subresource"))))
            yield it["verb"], resource, thing.get("name", ""), it["responseStatus"]["code"]
