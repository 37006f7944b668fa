#!/usr/bin/env python3
"""Plays the steps of the GitHub Action (action.yml) as a runner does, and looks at what they leave.

  conformance/real-clients/action.py [IMAGE]

Inputs have their defaults or what a test gives, expressions of inputs, steps, runner and github are replaced, each step runs
in its shell with its environment, and outputs and variables come from the files that a runner reads. Needs Docker, and Python
with PyYAML. sim gets ports of its own, so that it disturbs nobody.
"""
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail"]}
ANY_PORT = "--vcenter-listen 127.0.0.1:0 --cluster-listen 127.0.0.1:0 --supervisor-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0"


class Failed(Exception):
    """A step failed; holds its output."""


class Run:
    """One use of the action."""

    def __init__(self, action, temp, **given):
        unknown = set(given) - set(action["inputs"])
        if unknown:
            raise Failed(f"no such inputs: {unknown}")
        self.steps, self.variables, self.said = {}, {}, ""
        self.temp = temp
        self.inputs = {name: str(given.get(name, it.get("default", ""))) for name, it in action["inputs"].items()}
        for step in action["runs"]["steps"]:
            self.step(step)
        self.outputs = {name: self.fill(it["value"]) for name, it in action["outputs"].items()}

    def fill(self, text):
        """Returns the text with its expressions replaced. An unknown expression is an error, as it would be a misspelling."""
        def value(match):
            words = match[1].split(".")
            if words[0] == "inputs":
                return self.inputs[words[1]]
            if words[0] == "steps" and words[2] == "outputs":
                return self.steps[words[1]][words[3]]
            return {"github.action_path": str(ROOT), "runner.temp": self.temp}[match[1]]
        return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", value, text)

    def step(self, step):
        """Runs one step, and keeps its outputs and variables for later steps."""
        if "${{" in step["run"]:
            raise Failed(f"{step['name']}: an expression in a script would be run as a part of it; hand it in by env")
        files = {name: pathlib.Path(tempfile.mkstemp(dir=self.temp)[1]) for name in ("GITHUB_OUTPUT", "GITHUB_ENV")}
        script = pathlib.Path(self.temp, "script.sh")
        script.write_text(step["run"])
        environment = {key: self.fill(value) for key, value in step.get("env", {}).items()}
        ran = subprocess.run([*SHELLS[step["shell"]], script], cwd=self.temp, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, **self.variables, **environment, **{k: str(v) for k, v in files.items()}})
        self.said += ran.stdout
        if ran.returncode:
            raise Failed(ran.stdout)
        pairs = {name: dict(line.split("=", 1) for line in path.read_text().splitlines()) for name, path in files.items()}
        self.variables.update(pairs["GITHUB_ENV"])
        if "id" in step:
            self.steps[step["id"]] = pairs["GITHUB_OUTPUT"]


def answers(url, ca, token=None):
    """Returns the body of an answer, over TLS that trusts only `ca`."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    tls = ssl.create_default_context(cafile=ca) if url.startswith("https") else None
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20, context=tls) as answer:
        return answer.read().decode()


failures = 0


def ok(what, holds, saw=""):
    """Prints one line with the result of one check."""
    global failures  # pylint: disable=global-statement
    failures += not holds
    print(f"{'ok  ' if holds else 'FAIL'} {what}" + ("" if holds else f": {saw}"), flush=True)


def play(action, image, temp):
    """Plays one use that succeeds and two that fail."""
    name = f"action-{os.getpid()}"
    try:
        run = Run(action, temp, image=image, name=name, flags=f"--vms 3 --zones 2\n{ANY_PORT}", supervisor="true")
        out = run.outputs
        ok("outputs: every one has a value", all(out.values()), out)
        ok("outputs: the vCenter answers by its certificate", "urn:vim25" in answers(out["vcenter-url"] + "/sdk/vimServiceVersions.xml", out["ca"]))
        token = next(line.split()[-1] for line in open(out["kubeconfig"]) if line.strip().startswith("token:"))
        nodes = json.loads(answers(out["cluster-url"] + "/api/v1/nodes", out["ca"], token))["items"]
        ok("outputs: the cluster has the nodes that the flags say", len(nodes) == 3, nodes)
        machines = json.loads(answers(out["admin-url"] + "/world", None))["machines"]
        ok("outputs: the admin port shows the machines", len(machines) == 3, machines)
        ok("outputs: what a provider mounts is there", pathlib.Path(out["mounts"], "etc/cloud/ccm-provider/token").read_text())
        ok("variables: later steps have those of the env file", run.variables.get("GOVC_URL") == out["vcenter-url"] + "/sdk", run.variables)
        masked = {line.removeprefix("::add-mask::") for line in run.said.splitlines() if line.startswith("::add-mask::")}
        ok("secrets: passwords are masked before they are put out", {out["password"], run.variables["SIM_VC0_PROVIDER_PASSWORD"]} <= masked)
        script = '. "$1" && echo "$SIM_CLUSTER"'
        sourced = subprocess.run(["bash", "-euc", script, "-", out["env-file"]], text=True, capture_output=True)
        ok("env-file: a shell reads it", sourced.stdout.strip() == out["cluster-url"], sourced)
        inside = subprocess.run(["docker", "exec", "-e", f"SIM_ADMIN={out['admin-url']}", name, "/sim", "health"], text=True, capture_output=True)
        ok("container: sim in it says that it is healthy", inside.stdout == "ok\n", inside)
        try:
            Run(action, temp, image=image, name=f"{name}-bad", flags="--vms none")
            ok("a flag that is none ends the step", False, "it went on")
        except Failed as failed:
            ok("a flag that is none ends the step, and says which", "::error::sim ended" in str(failed) and "--vms" in str(failed), failed)
        try:
            Run(action, temp, image=image, supervisor="yes")
            ok("supervisor is true or false", False, "it went on")
        except Failed as failed:
            ok("supervisor is true or false", "'yes': write true or false" in str(failed), failed)
        left = subprocess.run(["docker", "ps", "-aq", "--filter", f"name={name}-bad"], text=True, capture_output=True).stdout
        ok("what ended is removed", not left, left)
    finally:
        subprocess.run(["docker", "rm", "-fv", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    image = sys.argv[1] if len(sys.argv) == 2 else action["inputs"]["image"]["default"]
    with tempfile.TemporaryDirectory() as temp:
        try:
            play(action, image, temp)
        except Failed as failed:
            ok("the steps run", False, failed)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
