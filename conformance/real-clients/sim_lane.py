"""Lane of the real Cluster Autoscaler with the simulated workload cluster in place of a real one, our server and our cloud provider.

The sim is the Supervisor, the machines with their kubelets, and the cluster with its scheduler and controllers. It also forwards the
autoscaler's calls to our server, so that its ledger has them and rules can disturb them.
"""
import scaling
from lane import expect
from ports import free_port
from servers import World

TOKEN = ("abcdef", "0123456789abcdef")


class SimulatedCluster(World):
    """A world that also schedules and runs pods, and forwards calls to our server at `port`."""
    faces = (*World.faces, "autoscaler")

    def __init__(self, binary):
        self.port = free_port()
        super().__init__(binary, "sim", 0)

    def options(self):
        return [*super().options(), "--workloads", f"--autoscaler-server=127.0.0.1:{self.port}"]

    def rule(self, protocol, operation, actions, **more):
        """Adds a rule that disturbs calls."""
        self.tell("/faults", [{"id": operation.strip("* "), "match": {"protocol": protocol, "op": operation}, "do": actions, **more}])

    def rpcs(self, method, group=""):
        """Returns the records of the autoscaler's calls of a method, about groups whose ID has this end."""
        return [it for it in self.records() if it["face"] == "grpc.ca" and it["op"] == method
                and it.get("target", {}).get("name", "").endswith(group)]


class Idle:
    """In place of the kubelets that scaling.py plays: the sim has its own."""
    trouble = None

    def start(self):
        """Starts nothing."""

    def end(self):
        """Ends nothing."""


class Lane(scaling.Lane):
    """The lane without a real cluster. With `direct` the autoscaler's calls do not pass the sim."""
    patience = 120  # a machine of the sim joins 40 s after its creation

    def __init__(self, binary, provider, world, direct=False):
        super().__init__(binary, provider, world, world)
        self.kubelets = Idle()
        self.port, self.direct = world.port, direct

    def address(self):
        return super().address() if self.direct else self.world.known["SIM_AUTOSCALER"]

    def start_cluster(self):
        # The sim has the parts of a cluster for which the other lanes start programs.
        pass

    def start(self, groups):
        """Starts everything except the autoscaler."""
        token = {"token-id": TOKEN[0], "token-secret": TOKEN[1], "usage-bootstrap-authentication": "true"}
        self.cluster.must("POST", "/api/v1/namespaces/kube-system/secrets", {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"bootstrap-token-{TOKEN[0]}"},
            "type": "bootstrap.kubernetes.io/token", "stringData": token})
        super().start(groups)
        self.bootstrap(f"kubeadm join 10.0.0.1:6443 --token {'.'.join(TOKEN)}")
        self.start_cloud_provider("--authentication-skip-lookup")

    def pods(self, name, replicas, cpu="1500m", anywhere=True, memory="2Gi"):
        # The cloud provider labels no Node with its class, so that the Pods cannot select one.
        super().pods(name, replicas, cpu, True, memory)

    def slow_deletion(self):
        """Has our server delete a machine without an answer, which the autoscaler awaits for five seconds. The machine stays until
        `operator(True)`."""
        super().slow_deletion()
        self.world.rule("grpc.ca", "NodeGroupDeleteNodes", ["blackhole"], effect="applied", when={"first": 1})

    def judge_rpcs(self, method, group, fails):
        """Checks that the ledger has calls of a method about a group, and that all fail, or that all succeed. Returns their number."""
        records = [it for it in self.world.rpcs(method, group) if "ended" in it]
        expect(records, f"the ledger has no {method} about {group or 'a group'}")
        others = [it["ended"] for it in records if bool(it["ended"].get("fault")) != fails]
        expect(not others, f"{len(others)} of {len(records)} calls {method} about {group or 'groups'} {'succeeded' if fails else 'failed'}: {others[:2]}")
        return len(records)

    def reset(self):
        """Does nothing, because each scenario has its own world."""
