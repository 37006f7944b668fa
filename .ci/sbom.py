#!/usr/bin/env python3
"""Prints the packages in a program of this workspace as a CycloneDX document (JSON, version 1.5).

    .ci/sbom.py PACKAGE [OTHER…] > FILE      OTHER are the packages that the same command builds, whose features this program also gets

Reads `cargo tree` for the packages that a build with the default features links, `cargo metadata` for licenses and dependencies, and
Cargo.lock for checksums. The same sources give the same document. Needs Python 3.11."""

import json
import subprocess
import sys
import tomllib


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(package, others):
    """Returns name and version of each package that the program links, the program itself first. cargo builds a package once for all programs of a
    command, so it has the features that any of them needs."""
    chosen = (argument for one in (package, *others) for argument in ("--package", one))
    text = cargo("tree", "--locked", *chosen, "--edges", "normal", "--prefix", "depth", "--no-dedupe", "--format", " {p}")
    found, root = {}, None
    for depth, name, version, *_ in (line.split() for line in text.splitlines() if line):
        root = name if depth == "0" else root
        if root == package:
            found[name, version.removeprefix("v")] = None
    return list(found)


def purl(name, version):
    return f"pkg:cargo/{name}@{version}"


def component(name, version, about, checksums):
    one = {"type": "library", "bom-ref": purl(name, version), "name": name, "version": version, "purl": purl(name, version)}
    if about["license"]:
        # cargo also knows the older form with a slash, which is not a valid expression.
        one["licenses"] = [{"expression": about["license"].replace("/", " OR ")}]
    if (name, version) in checksums:
        one["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return one


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: .ci/sbom.py PACKAGE [OTHER…]")
    packages = linked(sys.argv[1], sys.argv[2:])
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1"))
    about = {(it["name"], it["version"]): it for it in metadata["packages"]}
    keys = {it["id"]: (it["name"], it["version"]) for it in metadata["packages"]}
    with open("Cargo.lock", "rb") as file:
        lock = tomllib.load(file)["package"]
    checksums = {(it["name"], it["version"]): it["checksum"] for it in lock if "checksum" in it}

    components = [component(*key, about[key], checksums) for key in packages]
    needs = {}
    for node in metadata["resolve"]["nodes"]:
        key = keys[node["id"]]
        normal = (it["pkg"] for it in node["deps"] if any(kind["kind"] is None for kind in it["dep_kinds"]))
        needs[key] = sorted(purl(*keys[it]) for it in normal if keys[it] in packages)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": components[0] | {"type": "application"}},
        "components": sorted(components[1:], key=lambda it: it["bom-ref"]),
        "dependencies": [{"ref": purl(*key), "dependsOn": needs[key]} for key in sorted(packages)],
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
