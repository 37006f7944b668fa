#!/usr/bin/env python3
"""Checks the order of the crates and of the modules in them against .ci/rooms.txt.

  .ci/rooms.py               checks the workspace; exits with 1 and prints file and line of each problem
  .ci/rooms.py --graph [DIR] prints the modules of each crate, or of the crate in DIR, from bottom to top, with their uses and circles
  .ci/rooms.py --self-test   checks small trees with known problems

rooms.txt has a section per crate, `[folder of the crate]`, with these keys:

  crates    folders of the crates of the workspace that this crate uses
  never     external crates that this crate must not have, not even through another crate
  order     modules below the crate root from bottom to top; a module uses only modules before it
  main      the same for the modules below main.rs, if the crate also has a lib.rs
  knot      modules of `order` that still use each other in a circle; every module of a knot must be part of a circle
  siblings  `MODULE COUNT` of a module with more than twelve modules in it; the count must be exact. The crate root is `crate`, that of main.rs `main`

`order` contains `crate` only if a module uses an item that lib.rs itself defines; re-exports stand for the module that defines the item.
The keys `knot` and `siblings` are exceptions. They may only shrink, so the check also fails if an exception permits more than it has to.
Code that only tests compile may use everything.
"""
import pathlib
import re
import sys
import tempfile
import tomllib

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "rooms"))
from cases import CARGO, CASES, LIB
from crates import check_crates
from modules import check_files, check_modules, check_siblings, circles, graph_of, roots

KEYS = ("crates", "never", "order", "main", "knot", "siblings")


def plan(text, name):
    """Reads rooms.txt: section → key → words."""
    sections, section, key = {}, None, None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        if match := re.fullmatch(r"\[(.+)\]", line):
            section, key = sections.setdefault(match.group(1), {}), None
            continue
        if match := re.match(r"(\w+):", line):
            key, line = match.group(1), line[match.end():]
            if key not in KEYS:
                raise SystemExit(f"{name}:{number}: unknown key {key}: expected {', '.join(KEYS)}")
        if section is None or key is None:
            raise SystemExit(f"{name}:{number}: expected [FOLDER] or KEY: before this line")
        section.setdefault(key, []).extend(line.split())
    return sections


def check(root, text, name):
    sections = plan(text, name)
    workspace = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]
    members = workspace["members"]
    manifests = {it: tomllib.loads((root / it / "Cargo.toml").read_text()) for it in members}
    problems = [f"{name}: the crate {it} has no section" for it in members if it not in sections]
    problems += [f"{name}: [{it}] is not a member of the workspace" for it in sections if it not in members]
    problems += check_crates(root, workspace, manifests, sections, name)
    for folder in members:
        if folder in sections:
            trees, where = roots(root / folder), f"{name}: [{folder}]"
            for key, tree in trees.items():
                problems += check_modules(tree, key, sections[folder], where)
            problems += check_files(root / folder, trees) + check_siblings(trees, sections[folder], where)
    return [it.replace(f"{root}/", "") for it in problems]


def print_graph(name, folder):
    for key, tree in roots(folder).items():
        graph = graph_of(tree)
        print(f"{name} {key}: {' '.join(module for part in circles(graph) for module in part)}")
        for part in circles(graph):
            if len(part) > 1:
                print(f"  circle of {len(part)}: {' '.join(part)}")
            for module in part:
                print(f"  {module} uses {' '.join(sorted(graph[module])) or 'no other'}")


def self_test():
    """Checks each case in a folder of its own; the problems must be exactly the expected ones."""
    for name, files, text, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, content in {**CARGO, **LIB, **files}.items():
                if content is not None:
                    (root / path).parent.mkdir(parents=True, exist_ok=True)
                    (root / path).write_text(content)
            found = check(root, text, "rooms.txt")
        if len(found) != len(expected) or any(part not in it for part, it in zip(expected, found)):
            raise SystemExit(f"self-test '{name}' failed\n  expected {expected}\n  found    {found}")
    print(f"{len(CASES)} self-tests passed")


def main(arguments):
    root = pathlib.Path(__file__).resolve().parent.parent
    if arguments == ["--self-test"]:
        return self_test()
    if arguments[:1] == ["--graph"] and len(arguments) <= 2:
        members = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["members"]
        for folder in arguments[1:] or members:
            print_graph(folder, pathlib.Path(folder) if arguments[1:] else root / folder)
        return None
    if arguments:
        raise SystemExit(f"unknown argument {arguments[0]!r}: expected --graph [DIR] or --self-test")
    name = ".ci/rooms.txt"
    problems = check(root, (root / name).read_text(), name)
    print("\n".join(problems) or "the modules keep their order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
