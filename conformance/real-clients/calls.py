#!/usr/bin/env python3
"""Prints the calls of the provider so far as one line of JSON: {"delete nodes": 1, "patch nodes": 50, …}

  calls.py writes                    writes to Nodes of the workload cluster
  calls.py supervisor [LEFT-OUT…]    calls to the Supervisor, except operations that begin with a LEFT-OUT
  calls.py refusals                  calls that the Supervisor refused with 401: {"refused": N, "late": M}; M of them began
                                     after a call with the new token had succeeded

Writes come from the audit log of a real cluster if CLUSTER_AUDIT names one, else from the ledger of the sim. A call with an
error status is counted as "OPERATION: STATUS". The script leaves out the calls of the helpers of a story, which it recognizes
by their user agents. Simulated kubelets make no calls.
"""
import collections
import json
import os
import sys
import urllib.request

import servers

HELPERS = ("Python-urllib", "kubectl")


def writes(admin):
    """Yields every write to Nodes: (user agent, operation, status)."""
    audit = os.environ.get("CLUSTER_AUDIT")
    for agent, verb, resource, _, status in servers.audited(audit) if audit else servers.recorded(admin):
        if resource.split("/")[0] == "nodes":
            yield agent, f"{verb} {resource}", status


def asked(admin):
    """Yields every call to the Supervisor from the ledger."""
    with urllib.request.urlopen(admin + "/ledger", timeout=20) as answer:
        for line in answer.read().decode().splitlines():
            it = json.loads(line)
            if it.get("kind") == "call" and it["face"] == "k8s.supervisor":
                yield it


def supervisor(admin):
    """Yields every call to the Supervisor: (user agent, operation, status)."""
    for it in asked(admin):
        # An open watch has not ended and counts as a success.
        yield it["client"].get("user_agent", ""), it["op"], it.get("ended", {}).get("status", 200)


def refusals(admin):
    """Counts the calls that were refused with 401. Such a call is late if it began after the first success that follows the
    first refusal."""
    ours = [it for it in asked(admin) if not it["client"].get("user_agent", "").startswith(HELPERS) and "ended" in it]
    refused = [it for it in ours if it["ended"].get("status") == 401]
    first = min((it["ended"]["at"] for it in refused), default=0)
    answered = [it["ended"]["at"] for it in ours if it["t"] > first and it["ended"].get("status", 500) < 300]
    late = [it for it in refused if answered and it["t"] > min(answered)]
    return {"refused": len(refused), "late": len(late)}


def main():
    what, *left_out = sys.argv[1:]
    if what == "refusals":
        print(json.dumps(refusals(os.environ["SIM_ADMIN"])))
        return
    counts = collections.Counter()
    for agent, op, status in {"writes": writes, "supervisor": supervisor}[what](os.environ["SIM_ADMIN"]):
        op += "" if status < 300 else f": {status}"
        if not agent.startswith(HELPERS) and not op.startswith(tuple(left_out)):
            counts[op] += 1
    print(json.dumps(dict(sorted(counts.items()))))


if __name__ == "__main__":
    main()
