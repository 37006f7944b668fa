#!/usr/bin/env python3
"""Generates `supervisor.json`, the initial CustomResourceDefinitions of a Supervisor.

    supervisor.py VM-OPERATOR NSX-OPERATOR

The arguments are checkouts of github.com/vmware-tanzu/vm-operator (the present file is from commit
506dc5dcb) and github.com/vmware-tanzu/nsx-operator (e6df1606). The script adds the definitions in
`unpublished.yaml`, which are not public. It keeps the first sentence of each description, and drops
rules in CEL, which the sim does not evaluate. The script needs PyYAML. Do not edit `supervisor.json`
by hand.
"""

import json
import pathlib
import re
import sys

import yaml

HERE = pathlib.Path(__file__).parent
BASES, EXTERNAL, VPC = "config/crd/bases", "config/crd/external-crds", "build/yaml/crd/vpc"
VM_OPERATOR = [
    *(f"{BASES}/vmoperator.vmware.com_{name}.yaml" for name in (
        "clustervirtualmachineimages", "virtualmachineclassbindings", "virtualmachineclasses", "virtualmachinegroups",
        "virtualmachineimages", "virtualmachines", "virtualmachineservices", "virtualmachinesetresourcepolicies")),
    *(f"{EXTERNAL}/topology.tanzu.vmware.com_{name}.yaml" for name in ("availabilityzones", "vspherezones", "zones")),
    f"{EXTERNAL}/netoperator.vmware.com_networkinterfaces.yaml",
]
NSX_OPERATOR = [
    f"{VPC}/crd.nsx.vmware.com_{name}.yaml" for name in ("ipaddressallocations", "staticroutes", "subnetports", "subnetsets")
]
# The value of `spec.conversion` that the deployment of VM Operator patches into its definitions.
CONVERSION = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"service": {
            "namespace": "vmware-system-vmop", "name": "vmware-system-vmop-webhook-service", "path": "/convert", "port": 443}},
        "conversionReviewVersions": ["v1", "v1beta1"],
    },
}


def first_sentence(text):
    return re.split(r"(?<=[.])\s", " ".join(text.split("\n\n")[0].split()))[0]


def trimmed(value):
    if isinstance(value, list):
        return [trimmed(it) for it in value]
    if not isinstance(value, dict):
        return value
    kept = {key: trimmed(it) for key, it in value.items() if key != "x-kubernetes-validations"}
    if isinstance(kept.get("description"), str):
        kept["description"] = first_sentence(kept["description"])
    return kept


def read(path):
    with open(path, encoding="utf-8") as file:
        return [it for it in yaml.safe_load_all(file) if it]


def definition(given):
    spec = trimmed(given["spec"])
    if len(spec["versions"]) > 1:
        spec["conversion"] = CONVERSION
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": given["metadata"]["name"]},
        "spec": spec,
    }


def main():
    vm_operator, nsx_operator = (pathlib.Path(it) for it in sys.argv[1:3])
    files = [vm_operator / it for it in VM_OPERATOR] + [nsx_operator / it for it in NSX_OPERATOR] + [HERE / "unpublished.yaml"]
    definitions = [definition(it) for file in files for it in read(file)]
    definitions.sort(key=lambda it: it["metadata"]["name"])
    with open(HERE / "supervisor.json", "w", encoding="utf-8") as file:
        # Writes one definition per line, so that a diff shows only the changed definitions.
        lines = (json.dumps(it, ensure_ascii=False, separators=(",", ":")) for it in definitions)
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


main()
