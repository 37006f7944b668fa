#!/usr/bin/env python3
"""Generates data files of this directory from a running kube-apiserver and the Go modules of its types.

    generate.py https://127.0.0.1:6443 TOKEN ~/go/pkg/mod

`openapi.json` has the OpenAPI v3 schemas of the resources that the sim serves, and the schemas to which
they refer, as the server publishes them. `types.json` has the same structures in Go: order of fields,
`omitempty`, names of types, patch strategies. OpenAPI lacks the first three, and the sim needs them for
bodies and messages like those of a real server. `rbac.json` has the initial roles and bindings of a
server, with the rules of aggregated roles filled in as the controller does it.

To update the files to another version, change VERSION and run the script again. Do not edit the files by
hand. The script needs only Python's standard library.
"""

import json
import pathlib
import re
import ssl
import sys
import urllib.request

VERSION = "1.36.3"

# Resources that the sim serves: group, version, kinds.
SERVED = [
    (
        "",
        "v1",
        "Node Pod Service Endpoints Event Secret ConfigMap Namespace ServiceAccount ReplicationController"
        " PersistentVolume PersistentVolumeClaim PodTemplate",
    ),
    ("apps", "v1", "DaemonSet Deployment ReplicaSet StatefulSet"),
    ("batch", "v1", "Job"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("storage.k8s.io", "v1", "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment"),
    ("resource.k8s.io", "v1", "ResourceClaim ResourceSlice DeviceClass"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("authentication.k8s.io", "v1", "TokenReview SelfSubjectReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview SelfSubjectRulesReview"),
]

# Bodies of subresources, which the server publishes in the document of the resource: document, group, version, kind.
BODIES = [("api/v1", "policy", "v1", "Eviction")]

# Go packages: module, directory, name in OpenAPI.
PACKAGES = [
    ("apimachinery", "pkg/apis/meta/v1", "io.k8s.apimachinery.pkg.apis.meta.v1"),
    ("api", "core/v1", "io.k8s.api.core.v1"),
    ("api", "apps/v1", "io.k8s.api.apps.v1"),
    ("api", "batch/v1", "io.k8s.api.batch.v1"),
    ("api", "policy/v1", "io.k8s.api.policy.v1"),
    ("api", "storage/v1", "io.k8s.api.storage.v1"),
    ("api", "resource/v1", "io.k8s.api.resource.v1"),
    ("api", "coordination/v1", "io.k8s.api.coordination.v1"),
    ("api", "discovery/v1", "io.k8s.api.discovery.v1"),
    ("api", "rbac/v1", "io.k8s.api.rbac.v1"),
    ("api", "authentication/v1", "io.k8s.api.authentication.v1"),
    ("api", "authorization/v1", "io.k8s.api.authorization.v1"),
    (
        "apiextensions-apiserver",
        "pkg/apis/apiextensions/v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    ),
]

# Packages in OpenAPI by their import names in Go, and notations of Go types that encode themselves.
IMPORTS = {
    "metav1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "v1": "io.k8s.api.core.v1",
    "corev1": "io.k8s.api.core.v1",
}
OWN_CODECS = {
    "metav1.Time": "Time",
    "metav1.MicroTime": "MicroTime",
    "metav1.Duration": "Duration",
    "metav1.FieldsV1": "Raw",
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "runtime.RawExtension": "Raw",
    "types.UID": "scalar types.UID string",
    "types.NodeName": "scalar types.NodeName string",
    "apiextensions.JSON": "Raw",
    "apiextensions.JSONSchemaPropsOrBool": "Raw",
    "apiextensions.JSONSchemaPropsOrArray": "Raw",
    "apiextensions.JSONSchemaPropsOrStringArray": "Raw",
}
PRIMITIVES = {"string", "bool", "int", "int32", "int64", "float64"}


class Source:
    """The structures and named types of the Go packages."""

    def __init__(self, modules):
        self.structs = {}
        self.named = {}
        for module, directory, package in PACKAGES:
            found = sorted(modules.glob(f"{module}@v0.{VERSION.split('.', 1)[1]}"))
            if not found:
                sys.exit(f"{modules} has no module {module}@v0.{VERSION.split('.', 1)[1]}: download it with Go")
            for file in sorted((found[0] / directory).glob("*.go")):
                if file.name.endswith("_test.go") or file.name.startswith("zz_") or file.name == "generated.pb.go":
                    continue
                self.read(package, file.read_text())

    def read(self, package, text):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, flags=re.S | re.M):
            self.structs[f"{package}.{name}"] = body
        for name in re.findall(r"^type (\w+) struct ?\{ ?\}", text, flags=re.M):
            self.structs[f"{package}.{name}"] = ""
        for name, target in re.findall(r"^type (\w+) ([\[\]\w.*]+)(?:\s*//.*)?$", text, flags=re.M):
            if target not in ("struct", "interface"):
                self.named[f"{package}.{name}"] = target

    def resolve(self, package, text):
        """Returns a Go type in the notation of `types.json`: prefixes such as `*`, and full names of structures."""
        if text.startswith("*"):
            return "*" + self.resolve(package, text[1:])
        if text in ("[]byte", "[]uint8"):
            return "[]byte"
        if text.startswith("[]"):
            return "[]" + self.resolve(package, text[2:])
        if text.startswith("map["):
            key, value = text[4:].split("]", 1)
            return f"map[{self.go_name(package, key)}]" + self.resolve(package, value)
        if text in PRIMITIVES:
            return text
        full = self.full(package, text)
        short = full.split(".")
        alias = {"io.k8s.apimachinery.pkg.apis.meta.v1": "metav1"}.get(".".join(short[:-1]))
        if "apiextensions" in full and f"apiextensions.{short[-1]}" in OWN_CODECS:
            return OWN_CODECS[f"apiextensions.{short[-1]}"]
        own = OWN_CODECS.get(text) or OWN_CODECS.get(f"{alias}.{short[-1]}")
        if own and own.startswith("scalar "):
            _, name, base = own.split(" ")
            return f"{name}={base}"
        if own:
            return own
        if full in self.named:
            target = self.named[full]
            base = self.resolve(".".join(short[:-1]), target)
            return f"{self.go_name(package, text)}={base}"
        if full in self.structs:
            return full
        sys.exit(f"unknown Go type {text} in package {package}: add it to PACKAGES or OWN_CODECS")

    def full(self, package, text):
        if "." not in text:
            return f"{package}.{text}"
        prefix, name = text.split(".")
        return f"{IMPORTS.get(prefix, prefix)}.{name}"

    def go_name(self, package, text):
        if text in PRIMITIVES:
            return text
        if "." in text:
            prefix, name = text.split(".")
            return f"{IMPORTS[prefix].split('.')[-1] if prefix in IMPORTS else prefix}.{name}"
        return f"{package.split('.')[-1]}.{text}"

    def fields(self, full):
        package = full.rsplit(".", 1)[0]
        out = []
        for line in self.structs[full].splitlines():
            line = line.strip()
            if not line or line.startswith("//"):
                continue
            line = re.sub(r"\s*//[^`]*$", "", line)
            match = re.match(r"(?:(\w+)\s+)?([*\[\]\w.]+)\s*(`.*`)?$", line)
            if not match:
                sys.exit(f"cannot parse a field of the Go structure {full}: {line}")
            name, kind, tags = match.groups()
            tags = dict(re.findall(r'(\w+):"([^"]*)"', tags or ""))
            json_name, *options = tags.get("json", "").split(",")
            if "inline" in options or (name is None and not json_name):
                inner = self.full(package, kind.lstrip("*"))
                out.extend(self.fields(inner))
                continue
            if not json_name or json_name == "-":
                continue
            row = [json_name, self.resolve(package, kind)]
            flags = "".join(
                letter
                for letter, is_set in [
                    ("o", "omitempty" in options),
                    ("z", "omitzero" in options),
                ]
                if is_set
            )
            strategy = tags.get("patchStrategy", "")
            if "retainKeys" in strategy:
                flags += "r"
            if "merge" in strategy:
                flags += "m"
            row.append(flags)
            if "patchMergeKey" in tags:
                row.append(tags["patchMergeKey"])
            out.append(row)
        return out


def structures_in(kind):
    for name in re.findall(r"io\.k8s[\w.-]+", kind):
        yield name


def references(schema):
    if isinstance(schema, dict):
        for key, value in schema.items():
            # JSONSchemaProps has a property of this name, whose value is a schema.
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def write(path, document):
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_text(text + "\n")
    print(f"{path}: {len(text)} bytes")


def main():
    server, token, modules = sys.argv[1:]
    here = pathlib.Path(__file__).parent
    context = ssl._create_unverified_context()

    def get(path):
        request = urllib.request.Request(server + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=context) as answer:
            return json.load(answer)

    version = get("/version")["gitVersion"]
    if version != f"v{VERSION}":
        sys.exit(f"the server has version {version}: start kube-apiserver v{VERSION}")

    schemas, types, kinds = {}, {}, {}
    source = Source(pathlib.Path(modules).expanduser() / "k8s.io")
    parts = [(f"apis/{group}" if group else "api", group, version, names) for group, version, names in SERVED]
    parts = [(f"{base}/{version}", group, version, names) for base, group, version, names in parts]
    for document, group, version, names in parts + BODIES:
        published = get(f"/openapi/v3/{document}")["components"]["schemas"]
        todo = []
        for kind in names.split():
            gvk = {"group": group, "version": version, "kind": kind}
            [name] = [
                name
                for name, schema in published.items()
                if schema.get("x-kubernetes-group-version-kind") == [gvk]
            ]
            kinds[f"{group}/{version}/{kind}"] = name
            todo.append(name)
            if f"{name}List" in published:
                todo.append(f"{name}List")
        todo.append("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
        todo.append("io.k8s.apimachinery.pkg.apis.meta.v1.Status")
        while todo:
            name = todo.pop()
            if name in schemas or name not in published:
                continue
            schemas[name] = published[name]
            todo.extend(references(published[name]))
    todo = list(kinds.values())
    while todo:
        name = todo.pop()
        if name in types:
            continue
        types[name] = source.fields(name)
        for row in types[name]:
            todo.extend(structures_in(row[1]))

    roles = {}
    for resource in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]:
        selector = "labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults"
        items = get(f"/apis/rbac.authorization.k8s.io/v1/{resource}?{selector}")["items"]
        for item in items:
            for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"]:
                item["metadata"].pop(field, None)
        roles[resource] = items
    for role in roles["clusterroles"]:
        aggregation = role.get("aggregationRule")
        if not aggregation:
            continue
        rules = []
        for selector in aggregation["clusterRoleSelectors"]:
            for other in collected(roles["clusterroles"], selector["matchLabels"]):
                for rule in other["rules"] or []:
                    if rule not in rules:
                        rules.append(rule)
        role["rules"] = rules

    write(here / "openapi.json", schemas)
    write(here / "types.json", {"kinds": kinds, "structs": types})
    write(here / "rbac.json", roles)


def collected(roles, labels):
    """Yields the roles with these labels. In place of an aggregated role, yields the roles that it aggregates."""
    for role in sorted(roles, key=lambda role: role["metadata"]["name"]):
        theirs = role["metadata"].get("labels", {})
        if any(theirs.get(key) != value for key, value in labels.items()):
            continue
        if "aggregationRule" in role:
            for selector in role["aggregationRule"]["clusterRoleSelectors"]:
                yield from collected(roles, selector["matchLabels"])
        else:
            yield role


if __name__ == "__main__":
    main()
