"""Runs kubectl commands on two servers and compares their output; shared by kubectl.py and kubectl_supervisor.py.

A suite is a folder with three parts: the file `commands`, each a line of bash, their manifests, and the file `differences`, which
lists the commands whose output may differ, each with the reason. Exit code, standard output and standard error must be the same,
except for values that name an object or a moment of one server (see NORMAL). A difference that is not listed is a failure, and so
is a listed one that no longer exists.
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

PRELUDE = servers.HERE / "kubectl/prelude.sh"
TROUBLE = "exit code 99"  # see prelude.sh
UNKNOWN = "not looked into yet"
# Replacements in the output, in order. Ages and times depend on the clock; the server draws uids, versions, addresses and ports.
NORMAL = [(re.compile(pattern, re.M), text) for pattern, text in (
    # Every three minutes a real server checks its cluster addresses, and reports an address that it allocates at that moment.
    (r"^.*Cluster IP .* is not allocated; repairing.*\n?", ""),
    # client-go prints this if a wait of one second ends before its watch has delivered an event, which depends on milliseconds.
    (r"^.*very short watch: .*\n?", ""),
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
    (r"(?<=\S) {2,}", "  "),  # the width of a column is that of its widest cell, which may be an age
    (r"[ \t]+$", ""),
    # The empty table of events, which remains if the only event was the one that the first replacement removes.
    (r"^Events:\n +Type +Reason .*\n +---- .*\n(?! )", "Events:  <none>\n"),
)]


class Suite:
    """A folder of commands. The lines from the heading `VERSION` on are used once for each value in `each`, in place of VERSION."""

    def __init__(self, folder, each=(), also_normal=()):
        self.folder, self.each = folder, each
        self.normal = [(re.compile(pattern, re.M), text) for pattern, text in also_normal] + NORMAL
        self.lines = self.commands()

    def commands(self):
        """Returns headings as "## …" and commands, in order."""
        lines = [line for line in (self.folder / "commands").read_text().splitlines() if line.strip()]
        lines = [line for line in lines if line.startswith("## ") or not line.startswith("#")]
        # The lines from `## VERSION` on come last. They are repeated for each version.
        of_each = next((n for n, line in enumerate(lines) if line == "## VERSION"), len(lines))
        lines = lines[:of_each] + [line.replace("VERSION", one) for one in self.each for line in lines[of_each:]]
        twice = {line for line in lines if lines.count(line) > 1}
        if twice:
            sys.exit(f"{self.name('commands')}: a command occurs twice; distinguish the two by a comment: {twice.pop()}")
        return lines

    def name(self, file):
        return f"{self.folder.name}/{file}"

    def differences(self):
        """Returns the reasons of the commands that may differ. The file has each command in an unindented line, and its reason in
        the indented lines below."""
        known, command = {}, None
        path = self.folder / "differences"
        for line in path.read_text().splitlines() if path.exists() else ():
            if line.startswith(" "):
                known[command] = f"{known[command]} {line.strip()}".strip()
            elif line.strip() and not line.startswith("# "):
                command = line
                known[command] = ""
        return known

    def write(self, listed):
        """Replaces the entries of `differences`; the comment at its head stays."""
        path = self.folder / "differences"
        head = [it for it in path.read_text().splitlines() if it.startswith("# ")] if path.exists() else []
        body = [f"{line}\n    {reason}" for line, reason in listed.items()]
        path.write_text("\n".join(head + body) + "\n")

    def normalised(self, text):
        for pattern, replacement in self.normal:
            text = pattern.sub(replacement, text)
        return text


class Shell:
    """The folder and the environment in which the commands run on one server."""

    def __init__(self, suite, server, kubectl):
        self.suite, self.name, self.dir = suite, server.name, server.dir / "work"
        shutil.copytree(suite.folder, self.dir)
        shutil.copy(PRELUDE, self.dir)
        home = server.dir / "home"
        (home / "bin").mkdir(parents=True)
        (home / "bin/kubectl").symlink_to(kubectl)
        self.env = {"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": str(home), "KUBECONFIG": str(server.kubeconfig),
                    "LC_ALL": "C", "TZ": "UTC"}

    def run(self, line):
        """Runs a command. Returns exit code, standard output and standard error as text."""
        try:
            done = subprocess.run(["bash", "-c", f". ./prelude.sh; {line}"], cwd=self.dir, env=self.env, timeout=60,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return "still running after 60 s\n"
        parts = ((">", done.stdout), ("!", done.stderr))
        streams = "".join(f"{mark} {text}\n" for mark, out in parts for text in self.suite.normalised(out).splitlines())
        return f"exit code {done.returncode}\n{streams}"


def compare(suite, left, right, args, entered=lambda heading: None):
    """Runs all commands on both servers and prints the results. Calls `entered` at each heading. Returns the number of failures."""
    only, known, passed, failed, listed = args.only, suite.differences(), 0, 0, {}
    gone = [line for line in known if line not in suite.lines]
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        for line in suite.lines:
            if line.startswith("## "):
                print(line[1:], flush=True)
                entered(line[3:])
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
                print(f"FAIL {line}" + ("   (it could not carry out its steps)" if a.startswith(TROUBLE) else
                                         f"   (listed in {suite.name('differences')}, but the output is the same)" if same else ""))
            show = only is not None and only in line
            if show or a.startswith(TROUBLE) or (not same and line not in known):
                texts = a.splitlines(), b.splitlines()
                diff = difflib.unified_diff(*texts, left.name, right.name, lineterm="", n=200 if show else 2)
                print("\n".join("     | " + it for it in (list(diff) or texts[0])[:400 if show else 60]), flush=True)
    if args.write:
        suite.write(listed)
    for line in gone:
        print(f"FAIL {suite.name('differences')} lists a command that {suite.name('commands')} does not contain: {line}")
    print(f"{passed} passed ({sum(it in known for it in listed)} of them differ as listed), {failed + len(gone)} failed")
    return failed + len(gone)


def options(suite, doc, sim_always=False):
    """Returns the options of a script that runs a suite."""
    given = comparison.Options(doc, "kubectl", sim_always)
    given.parser.add_argument("--only", metavar="TEXT", help="text that selects commands whose output is printed in full")
    given.parser.add_argument("--write", action="store_true", help=f"update {suite.name('differences')}")
    args = given.parse()
    if args.only is not None and not any(args.only in line for line in suite.lines):
        given.wrong(f"--only {args.only!r}: no command in {suite.folder / 'commands'} contains this text")
    return args
