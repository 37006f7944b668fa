#!/usr/bin/env python3
"""Generates `vmoperator.json` from the Go sources of VM Operator's kinds.

    vmoperator.py VM-OPERATOR/api ~/go/pkg/mod

VM-OPERATOR is a checkout of github.com/vmware-tanzu/vm-operator. The file describes the Go structures
of each version of a kind, in the format of `types.json`. A conversion decodes an object into these
structures and encodes it again, so its result depends on their fields and on the fields that they omit
when empty. The file has a structure that is the same in several versions once, under its name in the
newest of them.

To update the file, run the script again with another checkout. Do not edit the file by hand. The script
needs only Python's standard library.
"""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kube/store/schemas"))
import generate  # noqa: E402

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
                # Some files import the package as `common`, which is a different package in each version.
                text = re.sub(r"(?<![\w.])common\.", f"vmopv1a{version[-1]}common.", file.read_text())
                if "conversion" not in file.name and not file.name.startswith("zz_"):
                    source.read(package(version, part), text)
    for name, target in source.named.items():
        # Stores a structure with a second name under both names, because fields may use either name.
        full = source.full(name.rsplit(".", 1)[0], target)
        if name.startswith("vmoperator.") and full in source.structs:
            source.structs[name] = source.structs[full]
    return source


def structures(source):
    """Returns the names of the kinds' structures by group, version and kind, and the fields of all structures."""
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
            # A conversion does not change metadata. Drops the names of types, because they are for messages,
            # except for corev1.ResourceList, which causes a rounding that only core kinds need.
            of = "Raw" if field == "metadata" else re.sub(r"[\w.]+=", "", of)
            rows.append([field, of, flags.replace("m", "").replace("r", "")])
            todo.extend(re.findall(NAME, rows[-1][1]))
        found[name] = rows
    return kinds, found


def newest(found):
    """Maps the name of each structure to the name of the same structure, including nested ones, in the newest version."""
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
