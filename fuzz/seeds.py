#!/usr/bin/env python3
"""Generates seeds for the fuzz targets json, patch, protobuf and selectors, in the input formats of the targets.

The seeds come from objects and requests in the repository.
"""

import json
import pathlib
import re
import urllib.parse

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent


def seed(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(data)


def objects(value):
    """Yields every Kubernetes object in a recorded answer."""
    if isinstance(value, dict):
        if "metadata" in value and isinstance(value.get("kind"), str):
            yield value
        for inner in value.values():
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


PATCHES = [
    [b'{"metadata":{"labels":{"a":null,"b":"c"}}}', 1],
    [b'[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/metadata","path":"/a"},{"op":"test","path":"/a/name","value":"n"}]', 0],
    [b'[{"op":"move","from":"/metadata/name","path":"/spec"},{"op":"remove","path":"/status"},{"op":"replace","path":"/kind","value":[1]}]', 0],
    [b'{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"},{"$patch":"replace"}],"conditions":[{"type":"Ready","$patch":"delete"}]}}', 2],
    [b'{"metadata":{"finalizers":["a"],"$setElementOrder/finalizers":["b","a"],"$deleteFromPrimitiveList/finalizers":["c"]}}', 2],
    [b'{"spec":{"ports":[{"port":80,"name":"x"},{"port":81}],"$retainKeys":["ports"],"$setElementOrder/ports":[{"port":81},{"port":80}]}}', 2 + 16],
    [b'{"spec":{"containers":[{"name":"a","image":"b"}],"volumes":[{"name":"v","$retainKeys":["name","emptyDir"],"emptyDir":{}}]}}', 2 + 32],
]

answers = sorted((ROOT / "conformance/kubernetes/answers").glob("*.json"))
found = {}
for answer in answers:
    for thing in objects(json.loads(answer.read_text())):
        found.setdefault(thing["kind"], []).append(thing)
for kind, things in found.items():
    largest = sorted(things, key=lambda it: len(compact(it)))[-1]
    if len(compact(largest)) > 20_000:
        continue
    seed("json", kind, compact(largest))
    for n, (patch, choice) in enumerate(PATCHES):
        seed("patch", f"{kind}-{n}", bytes([choice]) + compact(largest) + b"\n" + patch)

for body in (ROOT / "sim/kube/api/src/protobuf/fixtures").glob("*.pb"):
    seed("protobuf", body.stem, body.read_bytes())

selectors = {"a=b,c!=d", "a in (b,c),d notin (e,),!f", "a>5,b<7,a==b", "example.com/a,b in ()"}
fields = {"metadata.name=a,spec.unschedulable!=true", r"metadata.name=a\,b\=c", "spec.nodeName=d,status.phase==Running"}
for sequences in (ROOT / "conformance/kubernetes").glob("*.yaml"):
    text = sequences.read_text()
    for into, name in ((selectors, "labelSelector"), (fields, "fieldSelector")):
        into |= {urllib.parse.unquote(it) for it in re.findall(name + r"=([^&\s\"']+)", text)}
for n, text in enumerate(sorted(selectors)):
    seed("selectors", f"labels-{n}", text.encode() + b"\n")
for n, text in enumerate(sorted(fields)):
    seed("selectors", f"fields-{n}", b"\n" + text.encode())
