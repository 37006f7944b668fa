"""Shared parts of the scripts that compare `sim serve` with a real API server: options, the two servers, and exit codes.

Exit codes: 0 if everything is the same, 1 if something differs or does not happen in time, 2 if the arguments are invalid.
"""
import argparse
import contextlib
import os
import pathlib
import sys

import servers


class Options:
    """The options of a script for one client: the common ones, and those that the script adds to `parser`."""

    def __init__(self, doc, client, sim_always=False):
        self.client, self.sim_always = client, sim_always
        self.parser = argparse.ArgumentParser(description=doc.splitlines()[0], allow_abbrev=False)
        self.parser.add_argument(f"--{client}", metavar="FILE", help="the client [default: built from its Go module]")
        self.parser.add_argument("--sim", metavar="FILE", help="the sim [default: target/release/sim]")
        self.parser.add_argument(
            "--against", choices=("sim", "real"), default="sim", help="server to compare with the real server: the sim, or another real server [default: sim]")

    def wrong(self, sentence):
        """Ends the script with exit code 2, for invalid arguments."""
        self.parser.error(sentence)

    def parse(self):
        """Returns the options, with paths of the programs: `client` and, unless two real servers are compared, `sim`."""
        args = self.parser.parse_args()
        if args.against == "real" and not self.sim_always:
            if args.sim:
                self.wrong(f"--sim {args.sim}: --against real does not start a sim; leave out one of the two")
        else:
            target = os.environ.get("CARGO_TARGET_DIR", servers.ROOT / "target")
            args.sim = args.sim or os.environ.get("SIM_BIN") or f"{target}/release/sim"
            if not program(args.sim):
                self.wrong(f"--sim {args.sim}: is not a program; build it with: cargo build --release --locked -p vsphere-sim")
        path = getattr(args, self.client)
        if path and not program(path):
            self.wrong(f"--{self.client} {path}: is not a program; leave the option out to have it built")
        args.client = str(pathlib.Path(path or servers.built(self.client)).resolve())
        return args


def program(path):
    """True if the path is that of an executable file."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


@contextlib.contextmanager
def pair(args):
    """Yields the running real server and the running server to compare with it."""
    with servers.Real() as real, servers.Real("other") if args.against == "real" else servers.Sim(args.sim) as other:
        yield real, other


def run(main):
    """Runs `main` and ends the process: with 0 if `main` returns 0 failures, else with 1."""
    try:
        sys.exit(main() > 0)
    except servers.Failed as failure:
        print(f"FAIL {failure}")
        sys.exit(1)
