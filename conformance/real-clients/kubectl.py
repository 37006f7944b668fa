#!/usr/bin/env python3
"""kubectl against `sim serve` and a real kube-apiserver: the same commands, and what they print compared.

  conformance/real-clients/kubectl.py [--kubectl KUBECTL] [--sim SIM] [--against sim|real] [--only TEXT] [--write]

The commands stand in kubectl/commands, a line of bash each; their manifests beside them. Exit code, standard output and
standard error have to be the same, but for what names an object or a moment of one server (see NORMAL). What differs and is
to stay stands in kubectl/differences, with the reason; one that is not listed fails, and so does a listed one that is gone.
`--against real` compares two real servers, which proves the comparison itself. `--only` prints those commands that contain
TEXT, with what both servers answered; all are run. `--write` brings kubectl/differences up to date, reasons kept.
"""
import concurrent.futures
import difflib
import os
import re
import shutil
import subprocess
import sys

import comparison
import servers

FOLDER = servers.HERE / "kubectl"
DIFFERENCES = FOLDER / "differences"
TROUBLE = "exit code 99"  # see prelude.sh
UNKNOWN = "not looked into yet"
# In order. Ages and times go by the clock; uids, versions, addresses and ports are drawn by the server.
NORMAL = [(re.compile(pattern, re.M), text) for pattern, text in (
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "<time>"),
    (r"\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"^([EWI])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ([\w.]+):\d+\]", r"\1<log> \2]"),
    (r"https://127\.0\.0\.1:\d+", "<server>"),
    (r'(serverAddress"?: ?"?)[\w.:]+', r"\1<server>"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    (r"/tmp/(LIVE|MERGED|kubectl-edit)-?\d+\S*?(?=[/ \n]|$)", r"/tmp/\1"),
    (r'(resourceVersion"?: ?"?)\d+', r"\1<version>"),
    (r"(Resource Version: +)\d+", r"\1<version>"),
    (r'("continue": ?")[^"]+', r"\1<token>"),
    (r"\b10\.(9[6-9]|10\d|11[01])\.\d+\.\d+\b", "<cluster-ip>"),
    (r"\b3[0-2]\d{3}\b", "<node-port>"),
    (r"(?<![^ (\n])(\d+[dhm])?(\d+[shd]|\d{1,2}m)\b", "<age>"),  # 100m is a tenth of a processor
    (r"(?<=\S) {2,}", "  "),  # columns are as wide as their widest cell, which may be an age
    (r"[ \t]+$", ""),
)]


def normal(text):
    for pattern, replacement in NORMAL:
        text = pattern.sub(replacement, text)
    return text


def commands():
    """Headings as "## …" and commands, in order."""
    lines = [line for line in (FOLDER / "commands").read_text().splitlines() if line.strip()]
    lines = [line for line in lines if line.startswith("## ") or not line.startswith("#")]
    twice = {line for line in lines if lines.count(line) > 1}
    if twice:
        sys.exit(f"kubectl/commands: stands twice, tell them apart by a comment: {twice.pop()}")
    return lines


def differences():
    """The reason of each command that may differ: an unindented line, and indented ones below it."""
    known, command = {}, None
    for line in DIFFERENCES.read_text().splitlines() if DIFFERENCES.exists() else ():
        if line.startswith(" "):
            known[command] = f"{known[command]} {line.strip()}".strip()
        elif line.strip() and not line.startswith("# "):
            command = line
            known[command] = ""
    return known


class Shell:
    """Where the commands for one server run."""

    def __init__(self, server, kubectl):
        self.name, self.dir = server.name, server.dir / "work"
        shutil.copytree(FOLDER, self.dir)
        home = server.dir / "home"
        (home / "bin").mkdir(parents=True)
        (home / "bin/kubectl").symlink_to(kubectl)
        self.env = {"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": str(home), "KUBECONFIG": str(server.kubeconfig),
                    "LC_ALL": "C", "TZ": "UTC"}

    def run(self, line):
        """What came of it, as text: exit code, standard output, standard error."""
        try:
            done = subprocess.run(["bash", "-c", f". ./prelude.sh; {line}"], cwd=self.dir, env=self.env, timeout=60,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return "still running after 60 s\n"
        parts = ((">", done.stdout), ("!", done.stderr))
        streams = "".join(f"{mark} {text}\n" for mark, out in parts for text in normal(out).splitlines())
        return f"exit code {done.returncode}\n{streams}"


def compare(left, right, only, write):
    """Runs all on both. How many commands are not as listed."""
    known, passed, failed, listed = differences(), 0, 0, {}
    lines = commands()
    gone = [line for line in known if line not in lines]
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        for line in lines:
            if line.startswith("## "):
                print(line[1:], flush=True)
                continue
            a, b = both.map(lambda shell: shell.run(line), (left, right))  # pylint: disable=cell-var-from-loop
            same = a == b
            if not same:
                listed[line] = known.get(line, UNKNOWN)
            if same != (line in known) and not a.startswith(TROUBLE):
                passed += 1
                print(f"ok   {line}" if same else f"ok   {line}   (differs: {known[line]})")
            else:
                failed += 1
                print(f"FAIL {line}" + ("   (it cannot do what it is for)" if a.startswith(TROUBLE) else
                                         "   (listed in kubectl/differences, and the same)" if same else ""))
            show = only is not None and only in line
            if show or a.startswith(TROUBLE) or (not same and line not in known):
                texts = a.splitlines(), b.splitlines()
                diff = difflib.unified_diff(*texts, left.name, right.name, lineterm="", n=200 if show else 2)
                print("\n".join("     | " + it for it in (list(diff) or texts[0])[:400 if show else 60]), flush=True)
    if write:
        head = [it for it in DIFFERENCES.read_text().splitlines() if it.startswith("# ")] if DIFFERENCES.exists() else []
        body = [f"{line}\n    {reason}" for line, reason in listed.items()]
        DIFFERENCES.write_text("\n".join(head + body) + "\n")
    for line in gone:
        print(f"FAIL kubectl/differences lists what is not among the commands: {line}")
    print(f"{passed} passed ({sum(it in known for it in listed)} of them differ as listed), {failed + len(gone)} failed")
    return failed + len(gone)


def main():
    options = comparison.Options(__doc__, "kubectl")
    options.parser.add_argument("--only", metavar="TEXT", help="commands to show in full")
    options.parser.add_argument("--write", action="store_true", help="bring kubectl/differences up to date")
    args = options.parse()
    if args.only is not None and not any(args.only in line for line in commands()):
        options.wrong(f"--only {args.only!r}: no command contains it; they stand in {FOLDER / 'commands'}")
    with comparison.pair(args) as (real, ours):
        failed = compare(Shell(real, args.client), Shell(ours, args.client), args.only, args.write)
        real.keep = ours.keep = failed > 0
        return failed


if __name__ == "__main__":
    comparison.run(main)
