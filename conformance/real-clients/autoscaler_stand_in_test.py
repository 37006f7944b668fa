#!/usr/bin/env python3
"""Tests of the decisions of autoscaler_stand_in.py, without a cluster and without a server."""
import unittest

from autoscaler_stand_in import DELETION_TAINT, StandIn, is_unschedulable, nodes_for
from servers import Failed

TEMPLATE = {"metadata": {"labels": {"kubernetes.io/os": "linux"}}, "spec": {}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
GROUPS = {"g": {"id": "g", "maxSize": 3}}


def pod(cpu="1500m", **spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}], **spec}, "status": UNSCHEDULABLE}


def node(name, *taints):
    return {"metadata": {"name": name}, "spec": {"providerID": f"vsphere://{name}", "taints": [{"key": it, "effect": "NoSchedule"} for it in taints]}}


class Recorder(StandIn):
    """A stand-in whose calls change nothing and are recorded."""

    def __init__(self, refused=False):
        super().__init__("", "", self)
        self.refused, self.calls, self.taints = refused, [], []
        self.grown = float("-inf")

    def call(self, method, *words):
        if method == "NodeGroupTemplateNodeInfo":
            return TEMPLATE
        self.calls.append((method, *words))
        if self.refused:
            raise Failed("refused")
        return None

    def must(self, _, path, body, content_type):  # of the API of the cluster
        del content_type
        self.taints.append((path.rpartition("/")[2], [it["key"] for it in body["spec"]["taints"] or []]))


class Growth(unittest.TestCase):
    def grown(self, size, pods=2, nodes=(), used=()):
        it = Recorder()
        it.grow(GROUPS, {"g": size}, {"g": list(nodes)}, [pod()] * pods, set(used))
        return [words[-1] for words in it.calls]

    def test_a_group_grows_by_the_nodes_that_the_pods_need(self):
        self.assertEqual(self.grown(0), [2])
        self.assertEqual(self.grown(2, pods=5), [1], "at most to the maximum")
        self.assertEqual(self.grown(3, nodes=[node("a"), node("b"), node("c")], used="abc"), [], "the group is at its maximum")

    def test_machines_on_their_way_and_nodes_without_pods_have_room(self):
        self.assertEqual(self.grown(2), [])
        self.assertEqual(self.grown(2, nodes=[node("a"), node("b", "not-ready")]), [])
        self.assertEqual(self.grown(1, pods=1, nodes=[node("a")], used="a"), [1])

    def test_only_pods_that_fit_the_template_need_a_node(self):
        for name, it, n in (
                ("too large", pod("3"), 0), ("fits", pod("2"), 1),
                ("other label", pod(nodeSelector={"kubernetes.io/os": "windows"}), 0), ("label", pod(nodeSelector={"kubernetes.io/os": "linux"}), 1)):
            self.assertEqual(nodes_for([it], TEMPLATE), n, name)
        self.assertEqual(nodes_for([pod("500m")] * 5, TEMPLATE), 2)
        tainted = {**TEMPLATE, "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}
        self.assertEqual(nodes_for([pod()], tainted), 0)
        self.assertEqual(nodes_for([pod(tolerations=[{"key": "gpu", "operator": "Exists"}])], tainted), 1)

    def test_a_pod_with_unknown_conditions_starts_no_machine(self):
        self.assertTrue(is_unschedulable(pod(volumes=[{"name": "token", "projected": {}}])))
        self.assertFalse(is_unschedulable(pod(volumes=[{"name": "data", "persistentVolumeClaim": {}}])))
        self.assertFalse(is_unschedulable(pod(affinity={"nodeAffinity": {}})))
        self.assertFalse(is_unschedulable(pod(nodeName="a")))


class Shrinkage(unittest.TestCase):
    def test_a_node_that_stays_empty_is_tainted_and_its_machine_deleted(self):
        it = Recorder()
        it.shrink("g", 2, [node("a"), node("b"), node("c", "uninitialized")], {"b"})
        self.assertEqual(it.calls, [], "empty since a moment")
        it.empty_since["a"] -= 10
        it.shrink("g", 2, [node("a"), node("b"), node("c", "uninitialized")], {"b"})
        self.assertEqual(it.calls, [("NodeGroupDeleteNodes", "g", "a", "vsphere://a")])
        self.assertEqual(it.taints, [("a", [DELETION_TAINT])])

    def test_the_minimum_of_the_group_stays(self):
        it = Recorder()
        it.empty_since = {"a": float("-inf"), "b": float("-inf")}
        it.shrink("g", 1, [node("a"), node("b")], set())
        self.assertEqual(len(it.calls), 1)

    def test_a_refused_deletion_takes_the_taint_back(self):
        it = Recorder(refused=True)
        it.empty_since["a"] = float("-inf")
        with self.assertRaises(Failed):
            it.shrink("g", 1, [node("a")], set())
        self.assertEqual(it.taints, [("a", [DELETION_TAINT]), ("a", [])])


if __name__ == "__main__":
    unittest.main()
