#!/usr/bin/env python3
"""What the provider called so far, as one line of JSON: {"delete nodes": 1, "patch nodes": 50, …}

  calls.py writes                    to Nodes of the workload cluster, writes alone
  calls.py supervisor [LEFT-OUT]     to the Supervisor, but for operations that begin with LEFT-OUT

Writes come from the audit log of a real cluster, if CLUSTER_AUDIT names one, else from the ledger of the sim. What was refused has
its status beside it. The helpers of a story are known by their user agents; simulated kubelets make no calls.
"""
import collections
import json
import os
import sys
import urllib.request

import servers

HELPERS = ("Python-urllib", "kubectl")


def writes(admin):
    audit = os.environ.get("CLUSTER_AUDIT")
    for agent, verb, resource, status in servers.audited(audit) if audit else servers.recorded(admin):
        if resource.split("/")[0] == "nodes":
            yield agent, f"{verb} {resource}", status


def supervisor(admin):
    with urllib.request.urlopen(admin + "/ledger", timeout=20) as answer:
        for line in answer.read().decode().splitlines():
            it = json.loads(line)
            if it.get("kind") == "call" and it["face"] == "k8s.supervisor":
                # A watch that goes on has no end yet.
                yield it["client"].get("user_agent", ""), it["op"], it.get("ended", {}).get("status", 200)


def main():
    what, *left_out = sys.argv[1:]
    counts = collections.Counter()
    for agent, op, status in {"writes": writes, "supervisor": supervisor}[what](os.environ["SIM_ADMIN"]):
        op += "" if status < 300 else f": {status}"
        if not agent.startswith(HELPERS) and not op.startswith(tuple(left_out)):
            counts[op] += 1
    print(json.dumps(dict(sorted(counts.items()))))


if __name__ == "__main__":
    main()
