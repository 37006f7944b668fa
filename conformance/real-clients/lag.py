#!/usr/bin/env python3
"""Measures the delay from the moment a VirtualMachine shows an address until its Node does: lag.py WHY VM NODE ADDRESS SECONDS

VM and NODE are URLs of the two objects. The script fails if the delay is longer than SECONDS, or if one of them does not show the
address within a minute. It writes the measured delay to the file WHY, and prints it if it is not too long. See judge.py for the servers.
"""
import sys
import time

import asking

PATIENCE = 60.0


def shows(document, address):
    status = document.get("status", {})
    if document["kind"] == "VirtualMachine":
        return status.get("network", {}).get("primaryIP4") == address
    return address in (it["address"] for it in status.get("addresses", []))


def main():
    why, vm, node, address, seconds = sys.argv[1:]
    seen, end = {}, time.monotonic() + PATIENCE
    try:
        while len(seen) < 2 and time.monotonic() < end:
            for url in (vm, node):
                if url not in seen and shows(asking.ask("GET", url), address):
                    seen[url] = time.monotonic()
            time.sleep(0.02)
    except OSError as error:
        seen[repr(error)] = None
    lag = seen[node] - seen[vm] if {vm, node} <= set(seen) else None
    measured = f"{lag:.2f} s" if lag is not None else f"address shown within {PATIENCE:.0f} s only by: {sorted(seen) or 'none'}"
    with open(why, "w") as out:
        out.write(f"{measured}; expected at most {seconds} s\n")
    if lag is None or lag > float(seconds):
        sys.exit(1)
    print(f"     {measured}")


if __name__ == "__main__":
    main()
