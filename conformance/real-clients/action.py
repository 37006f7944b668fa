#!/usr/bin/env python3
"""Plays the steps of the GitHub Action (action.yml) as a runner does, and checks their outputs and the running sim.

  conformance/real-clients/action.py [IMAGE]

Each input has its default or the value that a test sets. The script replaces the expressions of inputs, steps, runner and
github, runs each step in its shell with its environment, and reads outputs and variables from the files that a runner reads.
Needs Docker, and Python with PyYAML. The sim listens on free ports, so that it does not disturb other sims.
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
    """Error for a step that failed, with the output of the step."""


class Run:
    """One run of all steps of the action."""

    def __init__(self, action, temp, **given):
        unknown = set(given) - set(action["inputs"])
        if unknown:
            raise Failed(f"unknown inputs: {unknown}")
        self.steps, self.variables, self.said = {}, {}, ""
        self.temp = temp
        self.inputs = {name: str(given.get(name, it.get("default", ""))) for name, it in action["inputs"].items()}
        for step in action["runs"]["steps"]:
            self.step(step)
        self.outputs = {name: self.fill(it["value"]) for name, it in action["outputs"].items()}

    def fill(self, text):
        """Returns the text with its expressions replaced. An unknown expression is an error, because it must be a misspelling."""
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
            raise Failed(f"{step['name']}: an expression in a script would be run as a part of it; pass it through env")
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
    """Returns the body of the answer to a GET. Over HTTPS the client trusts only `ca`."""
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
    """Plays one run of the action that succeeds and two that fail."""
    name = f"action-{os.getpid()}"
    try:
        run = Run(action, temp, image=image, name=name, flags=f"--vms 3 --zones 2\n{ANY_PORT}", supervisor="true")
        out = run.outputs
        ok("outputs: every output has a value", all(out.values()), out)
        ok("outputs: the vCenter answers with a certificate that the CA signs", "urn:vim25" in answers(out["vcenter-url"] + "/sdk/vimServiceVersions.xml", out["ca"]))
        token = next(line.split()[-1] for line in open(out["kubeconfig"]) if line.strip().startswith("token:"))
        nodes = json.loads(answers(out["cluster-url"] + "/api/v1/nodes", out["ca"], token))["items"]
        ok("outputs: the cluster has as many nodes as the flags set", len(nodes) == 3, nodes)
        machines = json.loads(answers(out["admin-url"] + "/world", None))["machines"]
        ok("outputs: the admin port shows the machines", len(machines) == 3, machines)
        ok("outputs: the files that a provider mounts exist", pathlib.Path(out["mounts"], "etc/cloud/ccm-provider/token").read_text())
        ok("variables: later steps have the variables of the env file", run.variables.get("GOVC_URL") == out["vcenter-url"] + "/sdk", run.variables)
        masked = {line.removeprefix("::add-mask::") for line in run.said.splitlines() if line.startswith("::add-mask::")}
        ok("secrets: the action masks passwords before it prints them", {out["password"], run.variables["SIM_VC0_PROVIDER_PASSWORD"]} <= masked)
        script = '. "$1" && echo "$SIM_CLUSTER"'
        sourced = subprocess.run(["bash", "-euc", script, "-", out["env-file"]], text=True, capture_output=True)
        ok("env-file: a shell reads it", sourced.stdout.strip() == out["cluster-url"], sourced)
        inside = subprocess.run(["docker", "exec", "-e", f"SIM_ADMIN={out['admin-url']}", name, "/sim", "health"], text=True, capture_output=True)
        ok("container: the sim in it is healthy", inside.stdout == "ok\n", inside)
        try:
            Run(action, temp, image=image, name=f"{name}-bad", flags="--vms none")
            ok("an invalid flag fails the step", False, "the step succeeded")
        except Failed as failed:
            ok("an invalid flag fails the step, and the error names the flag", "::error::sim ended" in str(failed) and "--vms" in str(failed), failed)
        try:
            Run(action, temp, image=image, supervisor="yes")
            ok("a value of supervisor other than true and false fails the step", False, "the step succeeded")
        except Failed as failed:
            ok("a value of supervisor other than true and false fails the step", "'yes': write true or false" in str(failed), failed)
        left = subprocess.run(["docker", "ps", "-aq", "--filter", f"name={name}-bad"], text=True, capture_output=True).stdout
        ok("the container of a failed step is removed", not left, left)
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
            ok("the steps of the action succeed", False, failed)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
