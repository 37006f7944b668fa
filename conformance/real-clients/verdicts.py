#!/usr/bin/env python3
"""Compares the verdicts of two reports: of a provider in virtual time and as a process, or of a provider with two API servers.

  conformance/real-clients/verdicts.py VIRTUAL PROCESS
  conformance/real-clients/verdicts.py BUILTIN REAL

Each argument is a folder that `conformance run --out` wrote. A check that the second run did not run is counted, but not compared.
The same holds for a check without a verdict because the machine was late. Two failures are equal only if case, invariant and cause
agree. The cause is the invariant if one was broken, else the words of the reason that contain no digit. Exits with 1 if a verdict
differs, if no check was compared, or if more than a quarter of the checks that were run have no verdict because the machine was late.
"""
import json
import pathlib
import sys

NOT_COMPARED = ("skipped", "not-supported", "harness-error")


def verdicts(folder):
    """Returns the stage of a report, and its checks by ID."""
    results = json.loads((pathlib.Path(folder) / "results.json").read_text())
    return results["stage"], {it["id"]: it for it in results["checks"]}


def failure(check):
    """Returns the parts of a failure that must be equal in two equal failures."""
    invariant = check.get("invariant")
    words = () if invariant is not None else tuple(
        word for word in check.get("reason", "").split() if not any(it.isdigit() for it in word)
    )
    return check.get("case"), invariant, words


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
        # A flaky check passed when repeated, and a partial check passed in the cases that were played: both count as pass.
        holds = {"flaky": "pass", "partial": "pass"}
        seen, wanted = holds.get(it["verdict"], it["verdict"]), holds.get(wanted, wanted)
        if seen != wanted or seen == "fail" and failure(it) != failure(virtual[check]):
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
