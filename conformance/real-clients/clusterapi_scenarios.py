"""Scenarios of the real Cluster Autoscaler over Cluster API, for autoscaler_clusterapi.py: each takes the lane of growing.py, raises Failed
if it does not end as it must, and returns a line about what it saw. Needs only Python's standard library.
"""
from clusterapi import CAPACITY, GOVMOMI, SUPERVISOR
from lane import expect
from servers import ROOT

PAUSED, PROVISION = "cluster.x-k8s.io/paused", "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime"
VGPUS = ("grid_t4-8q", "grid_t4-16q")


def arch(name):
    return {"nodeSelector": {"kubernetes.io/arch": name}}


def prepare(lane):
    """Creates the objects that several scenarios use."""
    lane.create_class("small", 2, "4Gi")
    lane.create_image("amd64", arch="amd64", type="linux")
    lane.create_image("arm64", arch="arm64", type="linux")
    lane.create_image("plain")
    lane.create_template("small", className="small", imageName="amd64")


def s1(lane):
    """S1: 0 → 1 → 0 with a Supervisor's template: without our reconciler the group stays at zero, with it the same Pod starts a machine."""
    lane.no_reconciler()
    lane.create_group("one", (SUPERVISOR, "small"))
    lane.pods("one", 1, {"cpu": "1500m", "memory": "3Gi"}, **arch("amd64"))
    reason = lane.refused("one", "one")
    expect(lane.target("one") is None, "the autoscaler lists the group without a capacity")
    lane.reconcile()
    grown = lane.grows("one", "one")
    expect(lane.published("small") == {"capacity": {"cpu": "2", "memory": "4Gi"}, "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"}},
           f"the status of the template is {lane.published('small')}")
    expect(any("MachineDeployment/workloads/one 0->1" in it for it in lane.events("TriggeredScaleUp", "one")), "no event TriggeredScaleUp")
    lane.until("the status has no size of 1", lambda: lane.target("one") == 1)
    before = len(lane.scaling_writes())
    gone = lane.clear("one", "one")
    group, machine, was_marked = lane.kubelets.deleted[-1]
    expect((group, was_marked) == ("one", True), f"{machine} was deleted without the annotation")
    writes = lane.scaling_writes()[before:]
    wanted = [("patch", "machines", machine), ("patch", "machinedeployments", "one")] if lane.serves else [
        ("update", "machines", machine), ("patch", "machinedeployments/scale", "one")]
    expect(writes[:2] == wanted, f"the writes are {writes}")
    return f"without: {reason}; with: size 1 after {grown:.1f} s; Machine marked, then size 0, {gone:.1f} s after the Pod"


def s2(lane):
    """S2: a Pod that asks for more than the published capacity starts no machine, until the class of the template is larger."""
    lane.create_class("growing", 2, "4Gi")
    lane.create_template("growing", className="growing", imageName="amd64")
    lane.create_group("two", (SUPERVISOR, "growing"))
    lane.pods("two", 1, {"cpu": "3", "memory": "3Gi"})
    reason = lane.refused("two", "two")
    expect("Insufficient cpu" in reason, f"the reason is {reason}")
    lane.change_class("growing", cpus=4)
    grown = lane.grows("two", "two")
    lane.clear("two", "two")
    return f"{reason}; size 1 {grown:.1f} s after the change of the class"


def s3(lane):
    """S3: the architecture of the image decides which group a Pod with a selector starts."""
    lane.create_template("arm", className="small", imageName="arm64")
    lane.create_group("arm", (SUPERVISOR, "arm"))
    lane.pods("needs-amd", 1, {"cpu": "1"}, **arch("amd64"))
    reason = lane.refused("needs-amd", "arm")
    expect("node affinity/selector" in reason, f"the reason is {reason}")
    lane.pods("needs-arm", 1, {"cpu": "1"}, **arch("arm64"))
    grown = lane.until("the group of arm64 does not grow", lambda: lane.size("arm") == 1)
    lane.until("the Pod for arm64 does not run", lambda: lane.running("needs-arm") == 1)
    expect(lane.running("needs-amd") == 0, "the Pod for amd64 runs")
    lane.pods("needs-amd", 0)
    lane.clear("needs-arm", "arm")
    return f"amd64: {reason}; arm64: size 1 after {grown:.1f} s"


def s4(lane):
    """S4: without nodeInfo the autoscaler starts no machine for a selector of amd64; with --assume-node-info it does."""
    lane.create_template("plain", className="small", imageName="plain")
    lane.create_group("four", (SUPERVISOR, "plain"))
    lane.pods("four", 1, {"cpu": "1"}, **arch("amd64"))
    if lane.serves:
        # Our server keeps the defaults of the labels.
        grown = lane.grows("four", "four")
        expect("nodeInfo" not in lane.published("plain"), f"the status of the template is {lane.published('plain')}")
        lane.clear("four", "four")
        return f"our server keeps the defaults: size 1 after {grown:.1f} s without the flag"
    reason = lane.refused("four", "four")
    expect("node affinity/selector" in reason and "nodeInfo" not in lane.published("plain"), f"{reason}; {lane.published('plain')}")
    lane.reconcile("--assume-node-info")
    grown = lane.grows("four", "four")
    lane.clear("four", "four")
    return f"without: {reason}; with: size 1 after {grown:.1f} s"


def s5(lane):
    """S5: with a template for vCenter the annotations of our reconciler do it, selector of amd64 included, and follow the template."""
    lane.no_reconciler()
    lane.create_template("vc-small", GOVMOMI, numCPUs=2, memoryMiB=4096)
    lane.create_template("vc-large", GOVMOMI, numCPUs=4, memoryMiB=8192)
    lane.create_group("five", (GOVMOMI, "vc-small"))
    lane.pods("five", 1, {"cpu": "3"}, **arch("amd64"))
    nothing = lane.refused("five", "five")
    lane.reconcile()
    lane.until("the group is not listed", lambda: lane.target("five") == 0)
    # The autoscaler has one event in five minutes about the same Pod, so a new one takes its place.
    lane.pods("five", 0)
    lane.pods("five-more", 1, {"cpu": "3"}, **arch("amd64"))
    small = lane.refused("five-more", "five", "Insufficient cpu")
    lane.change_template("five", (GOVMOMI, "vc-large"))
    grown = lane.grows("five-more", "five")
    lane.clear("five-more", "five")
    return f"without: {nothing}; 2 CPUs: {small}; 4 CPUs: size 1 after {grown:.1f} s"


def s6(lane):
    """S6: labels and taints of the annotations, and taints of the Machines, decide which Pods start a machine."""
    lane.create_group("six", (SUPERVISOR, "small"), {
        CAPACITY + "labels": "pool=batch,malformed", CAPACITY + "taints": "batch=yes:NoSchedule",
    }, taints=[{"key": "batch", "value": "no", "effect": "NoSchedule", "propagation": "Always"}])
    lane.pods("six", 1, {"cpu": "1"}, nodeSelector={"pool": "batch"})
    untolerated = lane.refused("six", "six")
    expect("untolerated taint" in untolerated, f"the reason is {untolerated}")
    lane.pods("six", 0)
    tolerations = [{"key": "batch", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    lane.pods("six-other", 1, {"cpu": "1"}, nodeSelector={"pool": "other"}, tolerations=tolerations)
    unlabelled = lane.refused("six-other", "six", "node affinity/selector")
    lane.pods("six-other", 0)
    lane.pods("six-tolerant", 1, {"cpu": "1"}, nodeSelector={"pool": "batch"}, tolerations=tolerations)
    grown = lane.grows("six-tolerant", "six")
    lane.clear("six-tolerant", "six")
    return f"no toleration: {untolerated}; other label: {unlabelled}; both: size 1 after {grown:.1f} s"


def s7(lane):
    """S7: the annotation maxPods limits the Pods of a machine; without it a machine holds them all."""
    # The provider of the autoscaler adds a Pod of kube-proxy to each machine at zero.
    n_pods = 4 if lane.serves else 3
    lane.create_group("seven", (SUPERVISOR, "small"), {CAPACITY + "maxPods": "3"})
    lane.pods("seven", n_pods, {"cpu": "10m"})
    lane.grows("seven", "seven", 2)
    lane.clear("seven", "seven")
    lane.create_group("roomy", (SUPERVISOR, "small"))
    lane.pods("roomy", n_pods, {"cpu": "10m"})
    lane.grows("roomy", "roomy", 1)
    lane.clear("roomy", "roomy")
    return f"{n_pods} Pods: 2 machines with maxPods 3, 1 machine without"


def s8(lane):
    """S8: GPUs: those that --gpu maps are published and used; the annotations of a person do the same."""
    lane.create_class("gpu", 2, "4Gi", VGPUS)
    lane.create_template("gpu", className="gpu", imageName="amd64")
    lane.create_group("gpu", (SUPERVISOR, "gpu"))
    lane.pods("eight", 1, {"cpu": "1", "nvidia.com/gpu": "2"})
    reason = lane.refused("eight", "gpu", "Insufficient nvidia.com/gpu")
    lane.reconcile(*(f"--gpu={it}=nvidia.com/gpu" for it in VGPUS))
    published = lane.grows("eight", "gpu", seconds=90)
    lane.clear("eight", "gpu")
    lane.reconcile()
    lane.create_group("gpu-by-hand", (SUPERVISOR, "small"), {CAPACITY + "gpu-count": "1", CAPACITY + "gpu-type": "nvidia.com/gpu"})
    lane.pods("eight-by-hand", 1, {"cpu": "1", "nvidia.com/gpu": "1"})
    lane.grows("eight-by-hand", "gpu-by-hand", seconds=90)
    lane.clear("eight-by-hand", "gpu-by-hand")
    return f"without --gpu: {reason}; with: size 1 after {published:.1f} s; by annotations: size 1"


def s9(lane):
    """S9: a CPU that a person has annotated wins over the published one, and the published memory stays."""
    lane.create_group("nine", (SUPERVISOR, "small"), {CAPACITY + "cpu": "1"})
    lane.pods("nine", 1, {"cpu": "1500m", "memory": "3Gi"})
    reason = lane.refused("nine", "nine", "Insufficient cpu")
    lane.annotate("nine", {CAPACITY + "cpu": "2"})
    lane.grows("nine", "nine")
    lane.clear("nine", "nine")
    return f"cpu 1: {reason}; cpu 2: size 1"


def s10(lane):
    """S10: of two machines the one without Pod goes: exactly this Machine is marked, the other Pod runs on."""
    lane.create_group("ten", (SUPERVISOR, "small"))
    lane.pods("ten", 1, {"cpu": "1500m"})
    lane.grows("ten", "ten")
    kept = lane.machines("ten")
    lane.pods("ten-more", 1, {"cpu": "1500m"})
    lane.grows("ten-more", "ten", 2)
    # The scheduler has put the second Pod onto the newer machine. The older one must go after the first Pod.
    lane.pods("ten", 0)
    lane.until("no Machine goes", lambda: len(lane.machines("ten")) == 1)
    expect(lane.kubelets.deleted[-1] == ("ten", kept[0], True), f"deleted: {lane.kubelets.deleted[-1]}; wanted {kept[0]}, marked")
    expect((lane.size("ten"), lane.running("ten-more")) == (1, 1), "the other Pod does not run on")
    lane.clear("ten-more", "ten")
    return "the older Machine was marked and deleted"


def s11(lane):
    """S11: a Machine without Node is given up after the provision time in the group's annotation, and the one with the Node stays."""
    lane.create_group("eleven", (SUPERVISOR, "small"), {PROVISION: "8s"})
    lane.pods("eleven", 1, {"cpu": "1500m"})
    lane.grows("eleven", "eleven")
    kept = lane.machines("eleven")
    lane.kubelets.joins = False
    lane.pods("eleven-more", 1, {"cpu": "1500m"})
    lane.until("no second Machine", lambda: len(lane.machines("eleven")) == 2)
    stuck = (set(lane.machines("eleven")) - set(kept)).pop()
    took = lane.until("the Machine without Node stays", lambda: stuck not in lane.machines("eleven"))
    # The autoscaler ends the scale-up or deletes the instance first, depending on the moment of its loop.
    expect(any("eleven" in it for reason in ("ScaleUpTimedOut", "DeleteUnregistered") for it in lane.events(reason)), "no event about the Machine")
    lane.kubelets.joins = True
    lane.grows("eleven-more", "eleven", 2, seconds=90)
    expect(kept[0] in lane.machines("eleven") and lane.running("eleven") == 1, f"{kept[0]} is gone")
    was_marked = {name: marked for _, name, marked in lane.kubelets.deleted}[stuck]
    expect(was_marked or not lane.serves, f"our server had {stuck} deleted without a mark")
    lane.pods("eleven", 0)
    lane.clear("eleven-more", "eleven")
    return f"given up {took:.0f} s after its creation, {'marked' if was_marked else 'by a lower size without mark'}; the next Machine became a Node"


def s12(lane):
    """S12: a group with the annotation `paused` is left alone, until the annotation is gone."""
    lane.create_group("twelve", (SUPERVISOR, "small"), {PAUSED: ""})
    lane.pods("twelve", 1, {"cpu": "1"})
    reason = lane.refused("twelve", "twelve")
    expect(lane.target("twelve") is None, f"the paused group is listed, with the size {lane.target('twelve')}")
    lane.annotate("twelve", {PAUSED: None})
    lane.grows("twelve", "twelve")
    lane.clear("twelve", "twelve")
    return f"paused: {reason}; then size 1"


def s13(lane):
    """S13: a label that Cluster API copies from the Machines to their Nodes, in `template.metadata`: the provider of 1.36.1 does not read it."""
    label = {"node.cluster.x-k8s.io/pool": "batch"}
    lane.create_group("thirteen", (SUPERVISOR, "small"), labels=label)
    lane.pods("thirteen", 1, {"cpu": "1"}, nodeSelector=label)
    if lane.serves:
        grown = lane.grows("thirteen", "thirteen")
        lane.clear("thirteen", "thirteen")
        return f"our server reads it: size 1 after {grown:.1f} s"
    reason = lane.refused("thirteen", "thirteen")
    lane.annotate("thirteen", {CAPACITY + "labels": "node.cluster.x-k8s.io/pool=batch"})
    lane.grows("thirteen", "thirteen")
    lane.clear("thirteen", "thirteen")
    return f"{reason}; with the annotation `labels`: size 1"


def s14(lane):
    """S14: a MachineSet without MachineDeployment grows from zero too, by the annotations that our reconciler gives to it."""
    lane.create_template("vc-of-set", GOVMOMI, numCPUs=2, memoryMiB=4096)
    lane.create_group("fourteen", (GOVMOMI, "vc-of-set"), kind="MachineSet")
    lane.pods("fourteen", 1, {"cpu": "1500m", "memory": "3Gi"}, **arch("amd64"))
    grown = lane.grows("fourteen", "fourteen")
    expect(any("MachineSet/workloads/fourteen 0->1" in it for it in lane.events("TriggeredScaleUp", "fourteen")), "no event TriggeredScaleUp")
    lane.clear("fourteen", "fourteen")
    expect(lane.kubelets.deleted[-1][2], "the Machine was deleted without the annotation")
    return f"size 1 after {grown:.1f} s, then 0"


def s15(lane):
    """S15: a group that had a Node keeps its shape in the memory of the autoscaler: a later capacity counts after a restart."""
    lane.create_class("later", 2, "4Gi")
    lane.create_template("later", className="later", imageName="amd64")
    lane.create_group("fifteen", (SUPERVISOR, "later"))
    lane.pods("fifteen", 1, {"cpu": "1"})
    lane.grows("fifteen", "fifteen")
    # The autoscaler learns the shape of a group from a Node that has been ready for a minute.
    lane.until("the autoscaler makes no loops", lambda: lane.age_of_node("fifteen") > 65, 90)
    lane.pods("fifteen", 0)
    lane.until("the Machine stays", lambda: not lane.machines("fifteen"), 90)
    lane.change_class("later", cpus=4)
    lane.until("the new capacity is not published", lambda: lane.published("later").get("capacity", {}).get("cpu") == "4")
    lane.pods("fifteen-large", 1, {"cpu": "3"})
    reason = lane.refused("fifteen-large", "fifteen")
    lane.autoscaler.end()
    lane.autoscaler.start()
    lane.grows("fifteen-large", "fifteen")
    lane.clear("fifteen-large", "fifteen")
    return f"4 CPUs published: {reason}; after a restart: size 1"


def s16(lane):
    """S16: the roles of the documentation suffice in all scenarios before: no request was forbidden."""
    refused = [line for it in lane.processes if it.name in ("autoscaler", "server", "reconciler")
               for line in it.log().splitlines() if "is forbidden" in line]
    expect(not refused, f"refused: {refused[:3]}")
    documents = [(ROOT / "docs" / it).read_text() for it in ("autoscaler.md", "scale-from-zero.md")]
    for file in lane.roles.values():
        role = file.read_text().partition("\n")[2]
        expect(any(role in it for it in documents), f"{file}: the documentation has another role")
    n_writes = len(lane.scaling_writes())
    expect(n_writes, "no client with the role has written anything")
    return f"{n_writes} writes to Machines and groups"


SCENARIOS = {it.__doc__.partition(":")[0]: it for it in (s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16)}
