#!/usr/bin/env python3
"""Holds the verdicts of two reports against each other: of a provider in virtual time and as a process, or of one with two API servers.

  conformance/real-clients/verdicts.py VIRTUAL PROCESS
  conformance/real-clients/verdicts.py BUILTIN REAL

Each is a folder that `conformance run --out` wrote. What was not run the second time is counted and not compared; what was
late because the machine was counts as nothing either. Ends with 1 if a verdict differs, if nothing was compared, or if
more than a quarter of what was run was too late to tell.
"""
import json
import pathlib
import sys

NOT_COMPARED = ("skipped", "not-supported", "harness-error")


def verdicts(folder):
    results = json.loads((pathlib.Path(folder) / "results.json").read_text())
    return results["stage"], {it["id"]: it for it in results["checks"]}


def main(virtual, process):
    (first, virtual), (second, process) = verdicts(virtual), verdicts(process)
    compared = differ = 0
    left_out, late = [], []
    for check, it in process.items():
        claims = it["verdict"] != "not-supported" or virtual.get(check, {}).get("verdict") == "not-supported"
        if check not in virtual or (it["verdict"] in NOT_COMPARED and claims):
            (late if it["verdict"] == "harness-error" else left_out).append(check)
            continue
        compared += 1
        wanted = virtual[check]["verdict"]
        # A check that held when it was tried again holds.
        seen = "pass" if it["verdict"] == "flaky" else it["verdict"]
        if seen != wanted:
            differ += 1
            print(f"FAIL {check}: {wanted} ({first}), {it['verdict']} ({second}): {it.get('reason')}")
    print(f"{compared} checks compared, {differ} differ")
    for what, checks in ("not run the second time", left_out), ("the machine was late", late):
        if checks:
            print(f"{len(checks)} not compared, {what}: {' '.join(checks)}")
    return differ > 0 or compared == 0 or len(late) * 3 > compared


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
