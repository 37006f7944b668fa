#!/usr/bin/env python3
"""Generates `vim25.txt`, the types of vim25, from the type tables of pyVmomi.

    pip download pyvmomi==9.1.1.0 --no-deps
    generate.py pyvmomi-9.1.1.0-py3-none-any.whl

pyVmomi (https://github.com/vmware/pyvmomi, Apache License 2.0) publishes the types of vSphere as calls of three
functions. The script collects the arguments of these calls from the modules `_typeinfo_core`, `_typeinfo_query` and
`_typeinfo_vim`. It runs no other code of the package, and needs only Python's standard library.

The file has all managed object types, all faults, all enumerations (the schema declares many values of them as texts),
and the data objects that a client can meet in a property, a parameter, a result or a fault, also as derived types. Names are those of the wire. Types are in
alphabetical order, members in the order of the schema:

    releases NAME…                    all releases, the oldest first
    managed NAME BASE SINCE           a managed object type, its base type, and the first release with it
    data NAME BASE SINCE              a data object type
    fault NAME BASE SINCE             a data object type that is a fault
    enum NAME SINCE                   an enumeration; below it are its values
     name TYPE [SINCE] [secret]       a property
     Name() TYPE [SINCE]              a method; a task has the form `Task<result>`
      name TYPE [SINCE] [secret]      a parameter of the method above
      throws NAME…                    the faults that the method above declares

TYPE is a name, with `&` before a managed object type (on the wire a reference), `[]` after the elements of a list, and
`?` at the end if the value is optional. SINCE is absent if it is that of the type, or of the method.

To update the file to another version, change VERSION and run the script again. Do not edit the file by hand.
"""

import ast
import pathlib
import re
import sys
import zipfile

VERSION = "9.1.1.0"
MODULES = ("_typeinfo_core", "_typeinfo_query", "_typeinfo_vim")
FLAGS = {"F_LINK": 1, "F_LINKABLE": 2, "F_OPTIONAL": 4, "F_SECRET": 8}
SIMPLE = {
    "string": "string", "boolean": "boolean", "void": "void", "byte": "byte", "short": "short", "int": "int", "long": "long",
    "float": "float", "double": "double", "anyType": "anyType", "vmodl.DateTime": "dateTime", "vmodl.Binary": "base64Binary",
    "vmodl.URI": "anyURI", "vmodl.TypeName": "string", "vmodl.PropertyPath": "string", "vmodl.MethodName": "string",
}
# Types that pyVmomi defines in code. `LocalizedMethodFault` is the form of a fault inside a data object.
BUILT_IN = [
    ("managed", "vmodl.ManagedObject", "ManagedObject", None, "vim.version.version1", [], []),
    ("data", "vmodl.DataObject", "DataObject", None, "vim.version.version1", [], None),
    ("data", "vmodl.LocalizedMethodFault", "LocalizedMethodFault", "vmodl.DynamicData", "vim.version.version1",
     [("fault", "vmodl.fault", "vim.version.version1", 0), ("localizedMessage", "string", "vim.version.version1", 4)], None),
    ("data", "vmodl.fault", "MethodFault", "vmodl.DynamicData", "vim.version.version1",
     [("faultCause", "vmodl.MethodFault", "vim.version.version5", 4),
      ("faultMessage", "vmodl.LocalizableMessage[]", "vim.version.version5", 4)], None),
    ("data", "vmodl.RuntimeFault", "RuntimeFault", "vmodl.fault", "vim.version.version1", [], None),
]


class Constants(ast.NodeTransformer):
    """Replaces the names of flags by numbers, so that the arguments are literals."""

    def visit_Name(self, node):
        return ast.Constant(FLAGS[node.id])

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return ast.Constant(node.left.value | node.right.value)


def calls(text):
    """The calls at the start of a line: function and arguments."""
    for line in text.splitlines():
        if re.match(r"(Create\w+Type|AddVersion\w*)\(", line):
            call = ast.parse(line).body[0].value
            yield call.func.id, [ast.literal_eval(Constants().visit(it)) for it in call.args]


def numbers(release):
    return [int(it) for it in re.findall(r"\d+", release)]


def read(wheel):
    """The types by vmodl name, and the first release with each version of a namespace."""
    types, ids, parents = {it[1]: it for it in BUILT_IN}, {}, {}
    for module in MODULES:
        text = wheel.read(f"pyVmomi/{module}.py").decode()
        for function, arguments in calls(text):
            if function == "AddVersion":
                name, _, release, *_ = arguments
                ids[name] = release
            elif function == "AddVersionParent":
                parents.setdefault(arguments[1], set()).add(arguments[0])
            elif function == "CreateEnumType":
                vmodl, name, since, values = arguments
                types[vmodl] = ("enum", vmodl, name, None, since, values, None)
            else:
                vmodl, name, base, since, fields, *methods = arguments
                kind = "managed" if methods else "data"
                types[vmodl] = (kind, vmodl, name, base, since, fields or [], methods[0] if methods else None)
    releases = {}
    for version in ids:
        with_it = {version} | parents.get(version, set())
        known = [release_of(it, ids) for it in with_it if it.startswith("vim.version.")]
        releases[version] = min(known, key=numbers)
    return types, releases


def release_of(version, ids):
    """The release of a version, such as 8.0.3.0; some versions have an id that does not say it."""
    release = ids[version].removesuffix("server")
    return release if release[0].isdigit() else ".".join(str(it) for it in numbers(version))


class Writer:
    def __init__(self, types, releases):
        self.types, self.releases = types, releases
        self.faults = set()
        for vmodl in types:
            up = vmodl
            while up and up != "vmodl.fault":
                up = self.base(up)
            if up:
                self.faults.add(vmodl)

    def base(self, vmodl):
        """The base type. The tables name the base class of faults as they name a fault inside a data object."""
        base = self.types[vmodl][3]
        return "vmodl.fault" if base == "vmodl.MethodFault" else base

    def name(self, vmodl):
        return SIMPLE.get(vmodl) or self.types[self.wire(vmodl)][2]

    @staticmethod
    def wire(vmodl):
        """The type of a value. A fault inside a data object is a `LocalizedMethodFault`."""
        return "vmodl.LocalizedMethodFault" if vmodl == "vmodl.MethodFault" else vmodl

    def declared(self, vmodl, flags):
        element = vmodl.removesuffix("[]")
        name = "string" if flags & FLAGS["F_LINK"] else self.name(element)
        is_managed = not flags & FLAGS["F_LINK"] and element not in SIMPLE and self.types[self.wire(element)][0] == "managed"
        return f"{'&' * is_managed}{name}{vmodl[len(element):]}{'?' * bool(flags & FLAGS['F_OPTIONAL'])}"

    def member(self, indent, member, since):
        name, vmodl, version, flags, *_ = member
        release = self.releases[version]
        words = [name, self.declared(vmodl, flags)] + [release] * (release != since) + ["secret"] * bool(flags & FLAGS["F_SECRET"])
        return indent + " ".join(words)

    def method(self, method, since):
        _, name, version, parameters, (flags, declared, result), _, faults = method
        release = self.releases[version]
        result = self.declared(result, flags)
        if declared == "vim.Task":
            result = f"Task<{result}>"
        yield f" {name}() {result}" + f" {release}" * (release != since)
        for parameter in parameters:
            yield self.member("  ", parameter, release)
        if faults:
            yield "  throws " + " ".join(sorted(self.name(it) for it in faults))

    def lines(self, vmodl):
        kind, _, name, _, version, members, methods = self.types[vmodl]
        since = self.releases[version]
        if kind == "enum":
            yield f"enum {name} {since}"
            yield from (f" {value}" for value in members)
            return
        base = self.base(vmodl)
        yield f"{'fault' if vmodl in self.faults else kind} {name} {self.name(base) if base else '-'} {since}"
        # `DynamicData` has members that no server sends.
        if vmodl != "vmodl.DynamicData":
            yield from (self.member(" ", it, since) for it in members)
        for method in methods or []:
            yield from self.method(method, since)

    def mentioned(self, vmodl):
        """The types in the members of a type."""
        kind, _, _, _, _, members, methods = self.types[vmodl]
        if kind == "enum":
            return
        yield from (it[1] for it in members if not it[3] & FLAGS["F_LINK"])
        for _, _, _, parameters, (_, declared, result), _, faults in methods or []:
            yield from (it[1] for it in parameters)
            yield from (declared, result, *(faults or []))

    def reachable(self):
        """All managed types, faults and enumerations, and all that they mention, with base types and derived types."""
        derived = {}
        for vmodl in self.types:
            derived.setdefault(self.base(vmodl), []).append(vmodl)
        open_ = [it for it in self.types if self.types[it][0] in ("managed", "enum") or it in self.faults]
        seen = set()
        while open_:
            vmodl = self.wire(open_.pop().removesuffix("[]"))
            if vmodl in seen or vmodl in SIMPLE or vmodl is None:
                continue
            seen.add(vmodl)
            open_ += self.mentioned(vmodl)
            if self.base(vmodl):
                open_.append(self.base(vmodl))
            # `anyType` may hold every type, and so may a base type of all. Neither makes all types reachable.
            if vmodl not in ("vmodl.DynamicData", "vmodl.DataObject", "vmodl.ManagedObject"):
                open_ += derived.get(vmodl, [])
        return sorted(seen, key=lambda it: self.types[it][2])


def main(path):
    with zipfile.ZipFile(path) as wheel:
        if f"pyvmomi-{VERSION}.dist-info/METADATA" not in wheel.namelist():
            raise SystemExit(f"{path}: expected the wheel of pyvmomi {VERSION}")
        writer = Writer(*read(wheel))
    lines = [f"# vim25 in pyVmomi {VERSION}. generate.py writes this file and explains it; do not edit it."]
    lines.append("releases " + " ".join(sorted(set(writer.releases.values()), key=numbers)))
    for vmodl in writer.reachable():
        lines += writer.lines(vmodl)
    target = pathlib.Path(__file__).with_name("vim25.txt")
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
