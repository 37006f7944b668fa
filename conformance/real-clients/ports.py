#!/usr/bin/env python3
"""Prints a port of 127.0.0.1 that is free, and stays free until a server listens on it.

The system gives ports of its own range to whoever connects or asks for any port. A free one of that range can be taken
before the server starts, so this script draws below it: nobody gets such a port who has not named it.
"""
import random
import socket

LOWEST = 10_000


def free_port():
    below = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
    for _ in range(1_000):
        port = random.randrange(LOWEST, below)
        with socket.socket() as it:
            # As servers do: connections that have ended do not count.
            it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                it.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"127.0.0.1: of 1000 ports drawn from {LOWEST} to {below}, none is free")


if __name__ == "__main__":
    print(free_port())
