"""A fault for each scenario of scaling_sim.py, with which the scenario has to fail (--break)."""
import threading
from typing import Callable, NamedTuple

from lane import STARTUP_TAINT
from scaling import machines_path

REFUSED = [{"grpcStatus": {"code": 13, "message": "a rule refuses the call"}}]


class Fault(NamedTuple):
    """What a fault is, the words with which the scenario fails, what the fault changes about the groups, and what it does when all but the
    autoscaler has started."""
    text: str
    why: str
    groups: dict = {}
    act: Callable = lambda lane: None


def refuse(*methods, **more):
    """Has the autoscaler's calls of these methods fail, under the conditions of `when`."""
    def act(lane):
        for method in methods:
            lane.world.rule("grpc.ca", method, REFUSED, **more)
    return act


def no_second_start(lane):
    """Has our server not start again once it has ended."""
    lane.server.start = lambda: None


def second_deletion(lane):
    """Has another program delete the second machine while the deletion of the first one is slow."""
    slow_deletion = lane.slow_deletion

    def delete():
        for name in lane.machines():
            lane.world.supervisor.ask("DELETE", f"{machines_path(lane.world)}/{name}")

    def both():
        slow_deletion()
        threading.Timer(20, delete).start()
    lane.slow_deletion = both


def two_restarts(lane):
    """Kills the autoscaler a second time, after it has asked for one more machine."""
    def start(started=lane.autoscaler.start):
        started()
        if len(lane.machines()) == 1:
            lane.until("no second machine", lambda: len(lane.machines()) == 2)
            lane.autoscaler.end()
            started()
    lane.autoscaler.start = start


def no_disruption(lane):
    """Creates a budget that permits no eviction of the small Pods."""
    lane.cluster.must("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "tiny"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "tiny"}}}})


def no_startup_taint(lane):
    """Has the autoscaler count a Node as ready before the cloud provider has initialized it."""
    lane.autoscaler.command.remove(STARTUP_TAINT)


FAULTS = {
    "R1": Fault("our server does not run", "no machine", act=lambda lane: lane.server.end()),
    "R2": Fault("the calls for the instances of a group fail", "no error of the first group", act=refuse("NodeGroupNodes")),
    "R3": Fault("the calls that remove machines fail", "the stuck machine stays",
                act=refuse("NodeGroupDeleteNodes", "NodeGroupDecreaseTargetSize")),
    "R4": Fault("our server does not start again", "0 of 1 Pods run", act=no_second_start),
    "R5": Fault("another program deletes the second machine", "a second machine is deleted", act=second_deletion),
    "R6": Fault("a call about a Node fails", "calls NodeGroupForNode about groups failed", act=refuse("NodeGroupForNode", when={"nth": 20})),
    "R7": Fault("the autoscaler restarts twice", "3 machines for one Pod", act=two_restarts),
    "R8": Fault("the group has a template", "the log does not name the group", {"missing": "best-effort-large"}),
    "R9": Fault("a budget permits no eviction", "both machines stay", act=no_disruption),
    "R10": Fault("the maximum is lower", "not at their maximum", {"small": 2}),
    "late": Fault("the autoscaler does not know the taint", "2 machines for one Pod", act=no_startup_taint),
    "caches": Fault("the cluster does not serve a kind", "the loop does not run",
                    act=lambda lane: lane.world.rule("k8s.guest", "* resourceslices", [{"status": {"code": 500}}])),
}
