#!/usr/bin/env python3
"""Prints schema.json: numbers, names and types of the fields of Kubernetes messages.

    sim/kube/api/src/protobuf/generate.py > sim/kube/api/src/protobuf/schema.json

Reads `generated.proto` (numbers and types) and the `json` tags of the Go types (fields that are left out
when empty) of k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver, Apache-2.0, in the
version below. Needs Go, which downloads missing modules.

A field is written as `name type flags [GoName]`. Flags: r repeated, p pointer (an empty value counts),
o left out when empty, z left out when zero, i inlined into the message around it.
"""

import glob
import json
import re
import subprocess
import tempfile

VERSION = "v0.36.3"
MODULES = ["k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver"]

KINDS = {
    "k8s.io.api.apps.v1": ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
    "k8s.io.api.batch.v1": ["Job"],
    "k8s.io.api.autoscaling.v1": ["Scale"],
    "k8s.io.api.core.v1": ["Binding", "ConfigMap", "Endpoints", "Event", "Namespace", "Node", "PersistentVolume",
                           "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController", "Secret", "Service",
                           "ServiceAccount"],
    "k8s.io.api.authentication.v1": ["SelfSubjectReview", "TokenRequest", "TokenReview"],
    "k8s.io.api.authorization.v1": ["LocalSubjectAccessReview", "SelfSubjectAccessReview",
                                    "SelfSubjectRulesReview", "SubjectAccessReview"],
    "k8s.io.api.coordination.v1": ["Lease"],
    "k8s.io.api.discovery.v1": ["EndpointSlice"],
    "k8s.io.api.events.v1": ["Event"],
    "k8s.io.api.policy.v1": ["Eviction", "PodDisruptionBudget"],
    "k8s.io.api.policy.v1beta1": ["Eviction"],
    "k8s.io.api.rbac.v1": ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    "k8s.io.api.resource.v1": ["DeviceClass", "ResourceClaim", "ResourceSlice"],
    "k8s.io.api.storage.v1": ["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"],
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1": ["CustomResourceDefinition"],
    "k8s.io.apimachinery.pkg.apis.meta.v1": ["DeleteOptions"],
}
GROUPS = {
    "apps": "apps/", "autoscaling": "autoscaling/", "batch": "batch/", "core": "",
    "authentication": "authentication.k8s.io/", "authorization": "authorization.k8s.io/",
    "coordination": "coordination.k8s.io/", "discovery": "discovery.k8s.io/", "events": "events.k8s.io/",
    "policy": "policy/", "rbac": "rbac.authorization.k8s.io/",
    "resource": "resource.k8s.io/", "storage": "storage.k8s.io/",
    "apiextensions": "apiextensions.k8s.io/", "meta": "",
}
SCALARS = {"string", "bytes", "bool", "int32", "int64", "double"}


def module(path):
    # Runs in an empty folder, so that no go.mod of this project or of the caller's folder matters.
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(["go", "mod", "download", "-json", f"{path}@{VERSION}"], cwd=folder,
                                check=True, capture_output=True)
    return json.loads(answer.stdout)["Dir"]


def protos(folders):
    """Returns messages by full name, each a list of (number, name, type, is repeated)."""
    found = {}
    for folder in folders:
        for path in glob.glob(folder + "/**/generated.proto", recursive=True):
            text = re.sub(r"//[^\n]*", "", open(path).read())
            package = re.search(r"^package ([\w.]+);", text, re.M)[1]
            for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S):
                fields = []
                for rule, kind, field, number in re.findall(
                        r"(optional|repeated|)\s*(map<[^>]+>|[\w.]+)\s+(\w+)\s*=\s*(\d+)[^;]*;", body):
                    kind = kind.lstrip(".")
                    mapped = re.match(r"map<\s*string\s*,\s*([\w.]+)\s*>", kind)
                    inner = (mapped[1] if mapped else kind).lstrip(".")
                    if inner not in SCALARS and "." not in inner:
                        inner = f"{package}.{inner}"
                    fields.append((int(number), field, f"map:{inner}" if mapped else inner, rule == "repeated"))
                found[f"{package}.{name}"] = fields
    return found


def go_fields(folders):
    """Returns fields by (folder, struct, name in protobuf): JSON name, Go name, flags."""
    found = {}
    for folder in folders:
        for path in glob.glob(folder + "/**/*.go", recursive=True):
            if path.endswith("_test.go") or "generated" in path:
                continue
            text = open(path).read()
            for struct, body in re.findall(r"^type (\w+) struct \{(.*?)^\}", text, re.M | re.S):
                for line in body.split("\n"):
                    tag = re.search(r'`.*?json:"([^"]*)".*?protobuf:"([^"]*)"', line)
                    if not tag or line.strip().startswith("//"):
                        continue
                    words = line.split("`")[0].split()
                    go_type = words[-1]
                    go_name = words[0] if len(words) > 1 else go_type.split(".")[-1].lstrip("*")
                    json_name, *options = tag[1].split(",")
                    name = re.search(r"name=(\w+)", tag[2])
                    flags = ""
                    if go_type.startswith("*"):
                        flags += "p"
                    if "omitempty" in options:
                        flags += "o"
                    if "omitzero" in options:
                        flags += "z"
                    if "inline" in options or (json_name == "" and len(words) == 1):
                        flags += "i"
                    key = name[1] if name else json_name or go_name[0].lower() + go_name[1:]
                    found[(path.rsplit("/", 1)[0], struct, key)] = (json_name or key, go_name, flags)
    return found


def main():
    folders = [module(path) for path in MODULES]
    messages, go = protos(folders), go_fields(folders)
    homes = {}
    for folder in folders:
        for path in glob.glob(folder + "/**/generated.proto", recursive=True):
            package = re.search(r"^package ([\w.]+);", open(path).read(), re.M)[1]
            homes[package] = path.rsplit("/", 1)[0]

    def short(name):
        return ".".join(name.split(".")[-3:]) if re.search(r"\.v\d\w*\.\w+$", name) else ".".join(name.split(".")[-2:])

    kinds, queue, out = {}, [], {}
    for package, names in KINDS.items():
        group, version = package.split(".")[-2:]
        for name in names:
            kinds[f"{GROUPS[group]}{version}/{name}"] = short(f"{package}.{name}")
            queue.append(f"{package}.{name}")
    while queue:
        message = queue.pop()
        if short(message) in out:
            continue
        package, struct = message.rsplit(".", 1)
        fields = {}
        for number, name, kind, repeated in messages[message]:
            json_name, go_name, flags = go.get((homes[package], struct, name), (name, "", "o"))
            inner = kind.removeprefix("map:")
            if inner not in SCALARS:
                queue.append(inner)
                kind = ("map:" if kind.startswith("map:") else "") + short(inner)
            flags = ("r" if repeated else "") + flags
            words = [json_name, kind, flags or "-"]
            if go_name and go_name != name[0].upper() + name[1:]:
                words.append(go_name)
            fields[str(number)] = " ".join(words)
        out[short(message)] = fields
    print("{")
    print(f' "source": "k8s.io/api, k8s.io/apimachinery, k8s.io/apiextensions-apiserver {VERSION}",')
    print(' "kinds": ' + json.dumps(dict(sorted(kinds.items())), indent=2).replace("\n", "\n ") + ",")
    print(' "messages": {')
    rows = [f'  "{name}": ' + json.dumps(fields) for name, fields in sorted(out.items())]
    print(",\n".join(rows))
    print(" }\n}")


main()
