#!/usr/bin/env python3
"""Writes the pages of docs/reference from the programs and from the sources.

  docs/reference.py target/release           writes the pages; the folder has sim, provider and conformance
  docs/reference.py target/release --check   compares the pages with what it would write, and exits with 1 if they differ

The help texts, the named failures and the list of checks come from the programs. No program lists the operations, the keys of rules, the
events of a world and the metrics, so the script reads them from the declarations and their doc comments.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
RULES = "sim/rules sim/src/faults"
OPERATIONS = "sim/src/call/operations"
NOTE = "<!-- docs/reference.py writes this page; do not edit it. -->\n\n"


def main():
    arguments = [it for it in sys.argv[1:] if it != "--check"]
    if len(arguments) != 1:
        sys.exit("usage: docs/reference.py FOLDER [--check], where FOLDER has sim, provider and conformance")
    folder = Path(arguments[0])
    pages = {
        "sim.md": help_page(folder, "sim", "The program `sim`"),
        "provider.md": help_page(folder, "provider", "The program `provider`"),
        "conformance.md": help_page(folder, "conformance", "The program `conformance`"),
        "operations.md": operations(),
        "rules.md": rules(folder),
        "events.md": events(),
        "checks.md": checks(folder),
        "metrics.md": metrics(),
    }
    stale = [name for name, text in pages.items() if old(name) != NOTE + text]
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"{', '.join(stale)} in docs/reference differ from the code; remedy: docs/reference.py {folder}")
        print(f"the {len(pages)} pages of docs/reference are those of the code")
        return
    for name in stale:
        (PAGES / name).write_text(NOTE + pages[name])
    print(f"docs/reference: wrote {', '.join(stale) or 'nothing, because no page has changed'}")


def old(name):
    page = PAGES / name
    return page.read_text() if page.exists() else None


# Programs.


def output(folder, *command):
    program = folder.resolve() / command[0]
    known = {key: value for key, value in os.environ.items() if not key.startswith("SIM_")}
    done = subprocess.run([program, *command[1:]], env=known | {"COLUMNS": "100"}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exits with {done.returncode}: {done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"


def help_page(folder, program, title):
    page = f"# {title}\n\nThe page has the help of each command, as `--help` prints it.\n"
    for command in commands(folder, [program]):
        page += f"\n## {' '.join(command)}\n\n```text\n{output(folder, *command, '--help')}```\n"
    return page


def commands(folder, command):
    """The command, and all commands below it."""
    yield command
    section = re.search(r"^Commands:\n((?:  .*\n)+)", output(folder, *command, "--help"), re.M)
    for name in re.findall(r"^  ([a-z0-9-]+) ", section[1], re.M) if section else []:
        if name != "help":
            yield from commands(folder, [*command, name])


# Declarations in Rust.


def sources(folder):
    """The files of a folder, without tests; none if the folder does not exist."""
    return sorted(path for path in (ROOT / folder).rglob("*.rs") if "tests" not in path.relative_to(ROOT).parts and path.name != "tests.rs")


def body(folder, kind, name):
    """The text between the braces of `enum NAME` or `struct NAME`, in any file of the folder."""
    start = re.compile(rf"^\s*(?:pub(?:\([a-z ]+\))? )?{kind} {name} \{{\n", re.M)
    for path in (path for one in folder.split() for path in sources(one)):
        text = path.read_text()
        if found := start.search(text):
            indent = re.match(r"\s*", found[0].lstrip("\n"))[0]
            return text[found.end() : text.index(f"\n{indent}}}\n", found.end()) + 1]
    sys.exit(f"docs/reference.py finds no `{kind} {name}` in {folder}")


ITEM = re.compile(
    r"(?P<doc>(?:^ *///.*\n)+)(?P<attributes>(?:^ *#\[(?:.*\n)(?:(?! *#\[| *pub | *[A-Z]| *[a-z_]+:).*\n)*)*)"
    r"^ *(?:pub )?(?P<name>[A-Za-z0-9_]+)(?P<rest>.*)$",
    re.M,
)


def items(text):
    """The fields or variants in a body: name in documents, doc comment, and what follows the name."""
    depth = {len(it) for it in re.findall(r"^( +)(?:pub )?[A-Za-z0-9_]+(?::|,|\(| \{)", text, re.M)}
    top = " " * min(depth)
    for found in ITEM.finditer(text):
        if not found["doc"].startswith(f"{top}///"):
            continue
        paragraphs = [re.sub(r"^ *///", "", line).strip() for line in found["doc"].splitlines()]
        doc = " ".join(line for line in paragraphs if line)
        renamed = re.search(r'rename = "([^"]+)"', found["attributes"])
        yield renamed[1] if renamed else camel(found["name"]), plain(doc), found["rest"], found.end()


def camel(name):
    words = name.split("_")
    first = words[0][:1].lower() + words[0][1:]
    return first + "".join(word.capitalize() for word in words[1:])


def plain(doc):
    """A doc comment without links of rustdoc, fit for a cell of a table."""
    doc = re.sub(r"\[(`[^`]*`)\](?:\([^)]*\))?", r"\1", doc)
    doc = re.sub(r"`Self::([A-Za-z]+)`", lambda it: f"`{camel(it[1])}`", doc)
    return re.sub(r"`(?:[A-Za-z]+::)+([A-Za-z]+)`", lambda it: f"`{camel(it[1])}`", doc).replace("|", "\\|")


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


# Pages.


def operations():
    soap = declared("RetrieveServiceContent")
    vapi = declared("cis.session.create")
    return (
        "# Operations of a vCenter\n\n"
        "Rules match these names and classes (`match.op`), and the ledger records them. A simulated vCenter refuses every other operation of SOAP if the caller\n"
        "is logged in and the object exists: with `NotSupported`, with `MethodNotFound` if objects of this type do not have the method, or with\n"
        "`InvalidRequest` if vim25 does not have it. It refuses every other path of vAPI with 404. The ledger records these calls too.\n\n"
        f"## SOAP\n\n{names(soap)}\n## vAPI\n\nServed below `/rest/com/vmware/cis` and `/api/cis`, sessions also at `/api/session`.\n\n{names(vapi)}\n"
        "## Fault classes\n\n`soapFault: {type: CLASS}` in a rule accepts every fault of vim25, such as `SystemError`, `NotAuthenticated` or `InvalidPowerState`.\n"
        "`sim/src/call/vim25/vim25.txt` has them in the lines that begin with `fault`, with their fields and base classes. Below each method it has the\n"
        "faults that the method declares; the sim warns of a rule with another one, unless the fault is a `RuntimeFault`.\n"
    )


def declared(first):
    """The names on the wire in the table of operations that begins with this one, with their classes."""
    text = next(text for path in sources(OPERATIONS) if f'= "{first}", ' in (text := path.read_text()))
    rows = re.findall(r'^\s*[A-Za-z]+ = "([^"]+)", ([A-Z][a-z]+), ', text, re.M)
    return [f"`{name}`, `@{kind.lower()}`" for name, kind in rows]


def names(all_names):
    return "".join(f"- {name}\n" for name in all_names)


def rules(folder):
    rule = {name: doc for name, doc, *_ in items(body(RULES, "struct", "Rule"))}
    page = (
        "# Rules\n\nA rule states which calls it matches, when it fires, and what it does then. `sim serve --faults FILE` and `sim fault add`\n"
        "read a list of rules as YAML or JSON. [How to inject a failure](../how-to/inject-a-failure.md) has examples.\n\n"
        + table(["key", "meaning"], ([f"`{name}`", doc] for name, doc in rule.items()))
    )
    parts = [
        ("match", "Matcher", "`protocol` is `soap`, `vapi`, `k8s.guest` (the workload cluster), `k8s.supervisor` or `grpc.ca` (calls of\nCluster Autoscalers that `sim serve --autoscaler-server` forwards). The classes of operations are `@read`, `@write`,\n`@login`, `@longpoll` and `@task`. Operations of a Kubernetes API are a verb and a resource, such as `patch nodes/status`."),
        ("match.resource", "Resource", "Every given key must match. `*` stands for any text."),
        ("match.client", "Client", "Every given key must match. `*` stands for any text."),
        ("when", "When", "All given conditions must hold. Matches are counted from 1, beginning with the addition of the rule."),
    ]
    for key, name, about in parts:
        rows = ([f"`{field}`", doc] for field, doc, *_ in items(body(RULES, "struct", name)))
        page += f"\n## {key}\n\n{about}\n\n{table(['key', 'meaning'], rows)}"
    text = body(RULES, "enum", "Action")
    rows = [[f"`{argument(name, rest, text[end:])}`", doc] for name, doc, rest, end in items(text)]
    page += "\n## do\n\nThe actions happen in order. The first one that replaces, breaks or corrupts the answer is the last one that takes effect.\n\n"
    page += table(["action", "effect"], rows)
    text = body(RULES, "enum", "Spoil")
    page += "\n## spoil\n\n" + table(["way", "effect"], ([f"`{argument(name, rest, '')}`", doc] for name, doc, rest, _ in items(text)))
    page += "\n## effect\n\nEffect on the world of an operation whose answer an action replaces.\n\n"
    page += table(["value", "meaning"], ([f"`{name}`", doc] for name, doc, *_ in items(body(RULES, "enum", "Effect"))))
    known = [line.split(None, 1) for line in output(folder, "sim", "fault", "known").splitlines()[1:]]
    page += "\n## Named failures\n\n`sim fault add NAME` adds one. In a file, its name stands for the rule, and `{use: NAME, …}` replaces keys of the rule.\n\n"
    return page + table(["name", "effect"], ([f"`{name}`", about] for name, about in known))


def argument(name, rest, following):
    """A variant as a document writes it: `delay: …`, `status: {code, …}`, or only its name."""
    if rest.lstrip().startswith("{"):
        inner = following[: following.index("\n    },")]
        return f"{name}: {braces(items(inner + chr(10)))}"
    kind = re.search(r"([A-Za-z0-9:]+)\),?$", rest)
    words = {"Duration": "DURATION", "String": "NAME", "usize": "N", "u64": "N", "u8": "PERCENT", "u32": "MIB", "Spoil": "WAY"}
    if not kind or "(" not in rest:
        return name
    return f"{name}: {words.get(kind[1]) or braces(items(body(RULES, 'struct', kind[1])))}"


def braces(fields):
    return f"{{{', '.join(name for name, *_ in fields)}}}"


def events():
    text = body("sim/world/src", "enum", "Command")
    rows = []
    for name, doc, rest, end in items(text):
        if name in ("cluster", "supervisor", "vcenter.request"):
            continue
        kind = re.search(r"\(([A-Za-z]+)\)", rest)
        if rest.lstrip().startswith("{"):
            value = braces(items(text[end : text.index("\n    },", end)] + "\n"))
        elif kind and kind[1] != "Named":
            value = braces(items(body("sim/world/src sim/kube", "struct", kind[1])))
        else:
            value = "NAME" if kind else ""
        rows.append([f"`{name}`", f"`{value}`" if value else "", doc])
    return (
        "# Events of a world\n\nA test changes the world with these commands: `sim world event '{\"vm.powerOff\": \"node-0001\"}'`, a request to\n"
        "`POST /world/events`, or `Sim::apply` in Rust. An event is an object with one key, its name. The value is the name of a machine or host, an\n"
        "object with the keys in braces, or `null` if the table has no value. The documentation of `sim::world::Command` describes the keys. The\n"
        "Supervisor has [further events](../supervisor.md#events).\n\n" + table(["event", "value", "effect"], rows)
    )


def checks(folder):
    page = (
        "# Checks\n\n`conformance explain ID` prints the promise of a check, its reason, its judgment and the remedy for a failure. `conformance run ID`\n"
        "plays it. The number of cases is per mode. `→` names the check that tests the same promise.\n"
    )
    surface, rows = None, []
    for line in output(folder, "conformance", "list", "--all").splitlines():
        found = re.match(r"(([A-Z0-9]+(?:-[A-Z]+)?)-\S+)\s+(MUST|SHOULD|INFO)\s+(.*?)\s{2,}(.*)$", line)
        if not found:
            continue
        check, group, requirement, cases, title = found.groups()
        if group != surface:
            page += table(["check", "requirement", "cases", "promise"], rows) if rows else ""
            page += f"\n## {group}\n\n"
            surface, rows = group, []
        rows.append([f"`{check}`", requirement, cases, title.replace("|", "\\|")])
    return page + table(["check", "requirement", "cases", "promise"], rows)


def metrics():
    rows = []
    for path in sources("provider/src/telemetry"):
        text = path.read_text()
        prefix = re.search(r'sub_registry_with_prefix\("([^"]+)"\)', text)
        for name, about, field in re.findall(r'\.register\(\s*"([^"]+)",\s*"([^"]+)",\s*[a-z]+\.([a-z0-9_.]+)\.clone\(\)', text):
            declared = kind_of(text, field)
            name = f"{prefix[1]}_{name}" if prefix else name
            name += "_total" if declared == "counter" else ""
            rows.append([f"`{name}`", declared, labels(text, field), about])
    return (
        "# Metrics of the provider\n\nThe provider serves them at `/metrics` of its HTTPS endpoint (`--secure-port`). A caller needs the permission to `get` the\n"
        "nonResourceURL `/metrics`. Those that begin with `grpc_server_` and `vsphere_autoscaler_` are metrics of `provider autoscaler`, which has\n"
        "`rest_client_requests_total` too and none of the others.\n\n" + table(["metric", "type", "labels", "meaning"], sorted(rows))
    )


def declaration(text, field):
    """The type of a metric in a field, with the aliases of its file replaced."""
    pattern = r"^(?:pub\S* )?struct \w+\((.*)\);" if field == "0" else rf"^    (?:pub\S* )?{field}: (.*),$"
    aliases = re.findall(r"^type (\w+) =\s*(.*);", text, re.M)
    for kind in re.findall(pattern, text, re.M):
        for alias, meaning in aliases:
            kind = re.sub(rf"\b{alias}\b", meaning, kind)
        if re.search("Histogram|Counter|Gauge", kind):
            return kind
    sys.exit(f"docs/reference.py finds no metric in the field `{field}`")


def kind_of(text, field):
    return next(kind.lower() for kind in ("Histogram", "Counter", "Gauge") if kind in declaration(text, field))


def labels(text, field):
    found = re.search(r"Family<(\w+)", declaration(text, field))
    if not found:
        return ""
    struct = next(
        inner for path in sources("provider/src/telemetry") if (inner := re.search(rf"struct {found[1]} \{{\n(.*?)\n\}}", path.read_text(), re.S))
    )
    return ", ".join(f"`{name}`" for name in re.findall(r"^    (?:pub\S* )?(\w+):", struct[1], re.M))


if __name__ == "__main__":
    main()
