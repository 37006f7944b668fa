#!/usr/bin/env python3
"""Prints a free port of 127.0.0.1 for a server that starts later.

The system assigns ports of its ephemeral range to programs that connect or request any port. Another program could get a free
port of that range before the server starts, so this script draws a port below the range.
"""
import random
import socket

LOWEST = 10_000
# The first port of the ephemeral range on Linux by default.
USUAL = 32_768


def free_port():
    try:
        below = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
    except OSError:
        below = USUAL
    if below <= LOWEST:
        below = USUAL
    for _ in range(1_000):
        port = random.randrange(LOWEST, below)
        with socket.socket() as it:
            # A port that only ended connections still occupy counts as free, as for servers.
            it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                it.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"127.0.0.1: none of 1000 random ports from {LOWEST} to {below} is free")


if __name__ == "__main__":
    print(free_port())
