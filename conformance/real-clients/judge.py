#!/usr/bin/env python3
"""Exits with 0 if an expression about documents from servers is true, else with 1: judge.py WHY EXPRESSION URL…

The script reads a JSON document from each URL. EXPRESSION is Python, with the documents as d[0], d[1], …. If the expression is
false, the script writes it and the documents to the file WHY. The URLs are those of the sim's admin port (SIM_ADMIN), the
workload cluster (CLUSTER, with CLUSTER_TOKEN) and the Supervisor (SIM_SUPERVISOR, with SUPERVISOR_TOKEN).
"""
import json
import sys

import asking

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"


def taints(node):
    return [taint["key"] for taint in node["spec"].get("taints", [])]


def addresses(node):
    return sorted({it["address"] for it in node["status"].get("addresses", []) if it["type"].endswith("IP")})


def annotations(node):
    return node["metadata"].get("annotations", {})


def labels(node):
    return node["metadata"].get("labels", {})


def named(documents):
    return {it["metadata"]["name"]: it for it in documents["items"]}


def main():
    why, expression, *urls = sys.argv[1:]
    try:
        d = [asking.ask("GET", url) for url in urls]
        holds, seen = eval(expression, {**globals(), "d": d}), d  # pylint: disable=eval-used
    except Exception as error:  # pylint: disable=broad-exception-caught
        holds, seen = False, repr(error)
    with open(why, "w") as out:
        out.write("" if holds else f"{expression}\n{json.dumps(seen)[:600]}\n")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
