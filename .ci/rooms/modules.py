"""Checks the modules of a crate: their order, their files and their number."""
from source import ROOT, Crate, walk

MOST_SIBLINGS = 12


def circles(graph):
    """Returns the strongly connected components of a graph, each before the components that use it (Tarjan)."""
    index, low, stack, result = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            result.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return result


def graph_of(crate):
    graph = {name: set() for name, it in crate.root.children.items() if not it.tested}
    for user, used, _, _ in crate.uses():
        graph.setdefault(user, set()).add(used)
        graph.setdefault(used, set())
    # lib.rs is a module of the graph only if a module uses an item that it defines.
    if not any(ROOT in used for used in graph.values()):
        graph.pop(ROOT, None)
    return graph


def roots(folder):
    """Returns the module trees of a crate by the key that lists their modules."""
    files = {"order": folder / "src" / "lib.rs", "main": folder / "src" / "main.rs"}
    found = {key: Crate(file) for key, file in files.items() if file.is_file()}
    if "order" not in found and "main" in found:
        found["order"] = found.pop("main")
    return found


def check_files(folder, trees):
    """Returns the files that no module declares."""
    known = {file for tree in trees.values() for file in tree.seen} | set((folder / "src" / "bin").rglob("*.rs"))
    lost = sorted(set((folder / "src").rglob("*.rs")) - known)
    return [f"{file}:1: no module declares this file" for file in lost]


def check_modules(crate, key, wanted, where):
    """Returns the problems of the modules of a crate."""
    uses = list(crate.uses())
    problems = list(crate.problems)
    graph = graph_of(crate)
    order, knot = wanted.get(key, []), wanted.get("knot", [])
    for name in sorted(set(graph) - set(order)):
        problems.append(f"{where}: module {name} is not in `{key}`")
    for name in sorted(set(order) - set(graph)):
        problems.append(f"{where}: `{key}` names the module {name}, which does not exist")
    problems += [f"{where}: `{key}` names {name} twice" for name in sorted({it for it in order if order.count(it) > 1})]
    place = {name: number for number, name in enumerate(order)}
    circle = {name: part for part in circles(graph) if len(part) > 1 for name in part}
    for user, used, file, line in uses:
        if user == ROOT and ROOT not in graph or user in knot and used in knot and used in circle.get(user, ()):
            continue
        if place.get(used, 0) > place.get(user, len(order)):
            problems.append(f"{file}:{line}: {user} uses {used}, which is above it in the order of the modules")
    if key == "order":
        problems += [f"{where}: {name} is in no circle any more; remove it from `knot`" for name in knot if name not in circle]
    return problems


def check_siblings(trees, wanted, where):
    """Returns the modules that have more than twelve modules in them, and the exceptions that are too large."""
    words = wanted.get("siblings", [])
    allowed, problems = dict(zip(words[::2], map(int, words[1::2]))), []
    modules = [("::".join(it.path) or (ROOT if key == "order" else key), it) for key, tree in trees.items() for it in walk(tree.root)]
    for name, module in modules:
        count = sum(not it.tested for it in module.out_of_line)
        limit = allowed.get(name, MOST_SIBLINGS)
        if count > limit:
            problems.append(f"{where}: {name} has {count} modules in it; expected at most {limit}")
        elif limit > MOST_SIBLINGS and count < limit:
            problems.append(f"{where}: {name} has only {count} modules in it; lower the exception in `siblings`")
    unknown = sorted(allowed.keys() - {name for name, _ in modules})
    return problems + [f"{where}: `siblings` names {name}, which does not exist" for name in unknown]
