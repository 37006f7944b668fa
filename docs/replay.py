#!/usr/bin/env python3
"""Replays the marked console examples of README.md and docs, and compares their output.

  docs/replay.py target/release           replays every page; the folder has sim, provider and conformance
  docs/replay.py target/release PAGE…     replays these pages

A comment before a block ```console marks it:

  <!-- replay -->                 each command must exit with 0
  <!-- replay: fails -->          the last command must exit with another code
  <!-- replay: until -->          the block is repeated for up to 60 s, until its output is as expected
  <!-- replay: serve -->          the last command runs until the end of the page; its output must come within 60 s
  <!-- replay: needs govc -->     without this program, in PATH or in the cache of conformance/peers, the block is skipped

The blocks of a page run one after the other, in an empty folder, with the variables of those before. The programs of the folder are in PATH and
in target/release. `cargo run -p NAME --` and `--bin NAME` start them too; every other command of cargo does nothing. Each page has ports of its
own in place of the usual ones. The lines of output in the page must be in the real output, in this order. `…` stands for any text, on a line of
its own for any lines. Runs of blanks are equal.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60
PORTS = {"vcenter": "8989", "cluster": "26443", "supervisor": "26444", "admin": "8900", "provider": "10258"}
HOWS = ("", "fails", "until", "serve", "needs")
BLOCK = re.compile(r"^<!-- replay(?:: (?P<how>[a-z]+)(?P<tools>(?: [a-z-]+)*))? -->\n```console\n(?P<text>.*?)^```$", re.M | re.S)
SIM = """#!/bin/sh
[ "$1" = serve ] || exec {program} "$@"
shift
exec {program} serve --vcenter-listen 127.0.0.1:{vcenter} --cluster-listen 127.0.0.1:{cluster} --supervisor-listen 127.0.0.1:{supervisor} \\
  --admin-listen 127.0.0.1:{admin} "$@"
"""
PROVIDER = """#!/bin/sh
exec {program} --secure-port={provider} --bind-address=127.0.0.1 "$@"
"""
OTHER = """#!/bin/sh
exec {program} "$@"
"""
CARGO = """#!/bin/sh
[ "$1" = run ] || exit 0
while [ "$1" != -- ]; do
  case $1 in -p | --bin) name=$2 ;; esac
  shift
done
shift
exec "${{name##*-}}" "$@"
"""


class Wrong(Exception):
    """A page that does not say what happens."""


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: docs/replay.py FOLDER [PAGE…], where FOLDER has sim, provider and conformance")
    folder = Path(sys.argv[1]).resolve()
    named = [Path(name).resolve() for name in sys.argv[2:]]
    pages = named or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    replayed, failed = 0, 0
    for page in pages:
        text = page.read_text()
        blocks = list(BLOCK.finditer(text))
        if problem := misplaced(text, blocks):
            failed += 1
            print(f"{page.relative_to(ROOT)}: {problem}")
            continue
        if not blocks:
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch, Shell(folder, Path(scratch)) as shell:
            try:
                done = shell.replay(blocks)
            except Wrong as problem:
                failed += 1
                print(f"{page.relative_to(ROOT)}: not as expected: {problem}")
                continue
        replayed += done
        print(f"{page.relative_to(ROOT)}: {done} of {len(blocks)} blocks replayed in {time.monotonic() - started:.1f} s")
    if failed or not replayed:
        sys.exit(f"{failed} pages are not as expected, {replayed} blocks are")


def misplaced(text, blocks):
    """Returns the problem of a mark that would be ignored: one that no block follows at once, or with an unknown word."""
    known = {block.start() for block in blocks if (block["how"] or "") in HOWS and (block["how"] == "needs") == bool(block["tools"])}
    for mark in re.finditer(r"^.*<!-- *replay.*$", text, re.M):
        if mark.start() not in known:
            words = ", ".join(f"`<!-- replay: {how} -->`" for how in HOWS if how)
            return f"'{mark.group()}' marks no block: expected `<!-- replay -->`, {words} (needs: with programs), and ```console on the next line"
    return None


class Shell:
    """A shell in an empty folder, with the programs under their usual names."""

    def __init__(self, folder, scratch):
        self.ports = {name: str(free_port()) for name in PORTS}
        self.scratch, self.tools, self.served = scratch, scratch / "target" / "release", []
        self.tools.mkdir(parents=True)
        scripts = {"sim": SIM, "provider": PROVIDER, "conformance": OTHER, "cargo": CARGO}
        for name, script in scripts.items():
            (self.tools / name).write_text(script.format(program=folder / name, **self.ports))
            (self.tools / name).chmod(0o755)
        known = {key: value for key, value in os.environ.items() if not key.startswith(("SIM_", "GOVC_", "KUBECONFIG"))}
        self.env = known | {
            "PATH": f"{self.tools}:{known['PATH']}",
            "TMPDIR": str(scratch),
            "HOME": str(scratch),
            "SIM_ADMIN": f"http://127.0.0.1:{self.ports['admin']}",
            "COLUMNS": "200",
        }

    def __enter__(self):
        self.variables = self.scratch / ".variables"
        self.variables.write_text("")
        return self

    def __exit__(self, *_):
        running = [process for process in self.served if process.poll() is None]
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    def replay(self, blocks):
        """Replays the blocks of a page, except those that need a missing program. Returns their number."""
        done = 0
        for block in blocks:
            how = block["how"] or ""
            if how == "needs" and (missing := [name for name in block["tools"].split() if not self.has(name)]):
                print(f"  a block is skipped: {missing[0]} is missing; how to get it: conformance/peers/build.sh {missing[0]}")
                continue
            commands = list(split(block["text"]))
            if how == "serve":
                self.run(commands[:-1])
                self.serve(*commands[-1])
            elif how == "until":
                self.until(commands)
            else:
                self.run(commands, fails=how == "fails")
            done += 1
        return done

    def has(self, name):
        """True if PATH has the program, or if the cache has it; puts that one into PATH."""
        if not shutil.which(name, path=self.env["PATH"]):
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vsphere-lab" / "peers"
            built = sorted(cache.glob(f"*/{name}"), key=lambda it: it.stat().st_mtime)
            if not built:
                return False
            (self.tools / name).symlink_to(built[-1])
        return True

    def run(self, commands, fails=False):
        for index, (command, expected) in enumerate(commands):
            code, output = self.output(command)
            wanted = "another code than 0" if fails and index == len(commands) - 1 else "0"
            if (code == 0) != (wanted == "0"):
                raise Wrong(f"$ {command}\nexits with {code}, not with {wanted}:\n{output}")
            compare(command, expected, output)

    def until(self, commands):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.run(commands)
            except Wrong:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.3)

    def serve(self, command, expected):
        log = self.scratch / f".log-{len(self.served)}"
        with log.open("w") as sink:
            self.served.append(self.start(f"exec {command}", stdout=sink, stderr=subprocess.STDOUT))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return compare(command, expected or ["export SIM_ADMIN=…"], self.usual(log.read_text()))
            except Wrong:
                if time.monotonic() > deadline or self.served[-1].poll() is not None:
                    raise
            time.sleep(0.05)

    def output(self, command):
        script = f"{command}\ncode=$?; declare -px >{self.variables}; exit $code"
        process = self.start(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Wrong(f"$ {command}\ndoes not end within {PATIENCE} s") from None
        return process.returncode, self.usual(output)

    def start(self, command, **options):
        """Starts a command with the variables of the commands before it, and with the ports of this page."""
        for name, usual in PORTS.items():
            command = re.sub(rf"(?<=[:=]){usual}\b", self.ports[name], command)
        # `exec` must stay the last word of its script, so that the process is the server itself.
        script = f"set -a; . {self.variables}\n{command}"
        return subprocess.Popen(["bash", "-c", script], cwd=self.scratch, env=self.env, stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def usual(self, text):
        """The output with the usual ports."""
        for name, usual in PORTS.items():
            text = re.sub(rf"\b{self.ports[name]}\b", usual, text)
        return text


def split(text):
    """The commands of a block, each with its lines of output."""
    command, expected, goes_on = None, [], False
    for line in text.splitlines():
        if goes_on or (command and not expected and (line == ">" or line.startswith("> "))):
            command += "\n" + line.removeprefix(">").removeprefix(" ")
            goes_on = line.endswith("\\")
        elif line.startswith("$ "):
            if command:
                yield command, expected
            command, expected, goes_on = line[2:], [], line.endswith("\\")
        elif command is None:
            raise Wrong(f"a block begins with output: {line}")
        else:
            expected.append(line)
    if command:
        yield command, expected


def compare(command, expected, output):
    """Fails unless the lines of the page are in the output, in this order."""
    lines = iter(words(output.splitlines()))
    for line in words(expected):
        if not line or line == "…":
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        if not any(pattern.fullmatch(real) for real in lines):
            raise Wrong(f"$ {command}\nprints no line, after those before it, that is:\n  {line}\nThe output is:\n{output}")


def words(lines):
    return [" ".join(line.split()) for line in lines]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    main()
