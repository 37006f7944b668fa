#!/usr/bin/env python3
"""Makes `vmoperator.json` from the Go sources of the VM Operator's kinds.

    vmoperator.py VM-OPERATOR/api ~/go/pkg/mod

VM-OPERATOR is a checkout of github.com/vmware-tanzu/vm-operator. The file says of each version of a
kind what its Go structures are, in the form of `types.json`: a conversion is a journey through them,
and what comes out depends on what they know and on what they leave out when it is empty. A structure
that is the same in the next version is written once, under the name of the newest one that has it.

Run it again for another checkout; nothing here is edited by hand. Python's standard library does.
"""

import json
import pathlib
import re
import sys

import generate

GROUP = "vmoperator.vmware.com"
VERSIONS = [f"v1alpha{n}" for n in range(1, 7)]
KINDS = [
    "VirtualMachine",
    "VirtualMachineService",
    "VirtualMachineClass",
    "VirtualMachineImage",
    "ClusterVirtualMachineImage",
    "VirtualMachineSetResourcePolicy",
    "VirtualMachineGroup",
]
PARTS = ["common", "cloudinit", "sysprep"]
NAME = r"(?:vmoperator|io\.k8s)\.[\w.-]+"


def package(version, part=None):
    return f"vmoperator.{version}" + (f".{part}" if part else "")


def read(api, modules):
    generate.OWN_CODECS["json.RawMessage"] = "Raw"
    for version in VERSIONS:
        n = version.removeprefix("v1alpha")
        for part in PARTS:
            generate.IMPORTS[f"vmopv1a{n}{part}"] = package(version, part)
    for part in PARTS:
        generate.IMPORTS[f"vmopv1{part}"] = package(VERSIONS[-1], part)
    source = generate.Source(modules)
    for version in VERSIONS:
        for part in [None, *PARTS]:
            for file in sorted((api / version / (part or "")).glob("*.go")):
                # Some import a package under its own name, which is another one in each version.
                text = re.sub(r"(?<![\w.])common\.", f"vmopv1a{version[-1]}common.", file.read_text())
                if "conversion" not in file.name and not file.name.startswith("zz_"):
                    source.read(package(version, part), text)
    for name, target in source.named.items():
        # A structure under another name may stand in others; those here refer to nothing.
        full = source.full(name.rsplit(".", 1)[0], target)
        if name.startswith("vmoperator.") and full in source.structs:
            source.structs[name] = source.structs[full]
    return source


def structures(source):
    """All structures that the kinds refer to, and the name of each kind's own."""
    kinds, found = {}, {}
    for version in VERSIONS:
        for kind in KINDS:
            name = f"{package(version)}.{kind}"
            if name in source.structs:
                kinds[f"{GROUP}/{version}/{kind}"] = name
    todo = list(kinds.values())
    while todo:
        name = todo.pop()
        if name in found:
            continue
        rows = []
        for field, of, flags, *_ in source.fields(name):
            # Metadata is not converted. Names of types are for messages alone, but that of
            # corev1.ResourceList means a rounding that happens in kinds of the core only.
            of = "Raw" if field == "metadata" else re.sub(r"[\w.]+=", "", of)
            rows.append([field, of, flags.replace("m", "").replace("r", "")])
            todo.extend(re.findall(NAME, rows[-1][1]))
        found[name] = rows
    return kinds, found


def newest(found):
    """For each structure the newest name of one that is the same, all the way down."""
    signatures = {}

    def signature(name):
        if name not in signatures:
            rows = [[field, re.sub(NAME, lambda it: signature(it[0]), of), flags] for field, of, flags in found[name]]
            signatures[name] = f"({re.sub('[.]v1alpha[0-9]', '', name)} {json.dumps(rows)})"
        return signatures[name]

    names = {}
    for name in sorted(found):
        names[signature(name)] = name
    return {name: names[signature(name)] for name in found}


def main():
    api, modules = map(pathlib.Path, sys.argv[1:])
    kinds, found = structures(read(api, modules.expanduser() / "k8s.io"))
    names = newest(found)
    rename = lambda text: re.sub(NAME, lambda it: names[it[0]], text)
    structs = {
        name: [[field, rename(of), flags] for field, of, flags in rows]
        for name, rows in found.items()
        if names[name] == name
    }
    kinds = {gvk: names[name] for gvk, name in kinds.items()}
    generate.write(pathlib.Path(__file__).parent / "vmoperator.json", {"kinds": kinds, "structs": structs})


if __name__ == "__main__":
    main()
