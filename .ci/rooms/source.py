"""Reads the module tree of a Rust crate and the uses of modules in it."""
import re

ROOT = "crate"
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<comment>/\*)
    |(?P<raw>(?:br|cr|r)(?P<hashes>\#*)")
    |(?P<string>[bc]?"(?:[^"\\]|\\.)*")
    |(?P<char>b?'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))')
    |(?P<word>'?(?:r\#)?[A-Za-z_0-9]\w*)
    |(?P<mark>::|.)""",
    re.VERBOSE | re.DOTALL,
)
OPEN, CLOSE = {"{": "}", "(": ")", "[": "]"}, {"}", ")", "]"}


def tokens(text):
    """Returns the tokens of a Rust source with their line numbers, without comments."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        end, kind, token = match.end(), match.lastgroup, match.group()
        if kind == "comment":
            depth = 1
            while depth and end < len(text):
                inner = re.compile(r"/\*|\*/").search(text, end)
                end, depth = (inner.end(), depth + (1 if inner.group() == "/*" else -1)) if inner else (len(text), 0)
        elif match.group("raw"):
            closing = text.find('"' + match.group("hashes"), end)
            end = len(text) if closing < 0 else closing + 1 + len(match.group("hashes"))
            found.append(('""', line))
        elif kind != "space":
            found.append((token.removeprefix("r#"), line))
        line += text.count("\n", at, end)
        at = end
    return found


class Module:
    """A module: its path below the crate root, and the names that its `use` declarations and items bring into it."""

    def __init__(self, path, tested):
        self.path, self.tested = path, tested
        self.children, self.names, self.macros = {}, {}, set()
        self.out_of_line = []


class Crate:
    """The module tree below lib.rs or main.rs, and every path in it that begins with `crate`, `$crate`, `super` or `self`."""

    def __init__(self, root):
        self.problems, self.paths, self.calls, self.seen = [], [], [], set()
        self.root = Module((), False)
        self.read(root, self.root, root.parent)

    def read(self, file, module, inside):
        """Reads the file of a module whose children are in the folder `inside`."""
        self.seen.add(file)
        self.items(tokens(file.read_text()), 0, file, module, inside)

    def items(self, found, at, file, module, inside):
        """Reads tokens up to the end of the block, with the items of inline modules in modules of their own."""
        depth, tested = 0, module.tested
        skip_to, at_path = -1, None
        while at < len(found):
            token, line = found[at]
            after = found[at + 1][0] if at + 1 < len(found) else ""
            before = found[at - 1][0] if at else ""
            if at >= skip_to:
                tested = module.tested
            if token == "#" and after in ("[", "!"):
                end = closing(found, at + (1 if after == "[" else 2))
                inner = [it for it, _ in found[at:end]]
                if after == "[" and only_tests(inner) and not tested:
                    tested, skip_to = True, item_end(found, end)
                if inner[2:4] == ["path", "="]:
                    at_path = inner[4].strip('"')
                for text, where in found[at:end]:
                    if re.fullmatch(r'"(crate|super|self)(::\w+)+"', text):
                        self.add(text.strip('"').split("::"), file, where, module, tested)
                at = end
                continue
            if token in OPEN:
                depth += 1
            elif token in CLOSE:
                depth -= 1
                if depth < 0:
                    return at
            if token == "mod" and depth == 0 and at + 2 < len(found) and found[at + 2][0] in (";", "{"):
                child = module.children.setdefault(after, Module((*module.path, after), tested))
                if found[at + 2][0] == "{":
                    at = self.items(found, at + 3, file, child, inside / after) + 1
                else:
                    self.declared(file, line, module, child, inside / after, at_path and file.parent / at_path)
                    at += 3
                at_path = None
                continue
            if token == "use" and before not in (".", "<", ",", "+"):
                end = next((it for it in range(at, len(found)) if found[it][0] == ";"), len(found))
                for path, name, where in use_tree(found, at + 1, end):
                    if depth == 0 and not tested:
                        module.names[name] = path
                    self.add(path, file, where, module, tested, in_use=True, top=depth == 0)
                at = end
                continue
            if token == "macro_rules" and after == "!":
                module.macros.add(found[at + 2][0])
            elif after == "!" and re.match(r"[a-z_]", token) and found[at + 2][0] in OPEN and not tested:
                self.calls.append((token, file, line, module))
            if depth == 0 and before in ("struct", "enum", "trait", "fn", "type", "const", "static", "union"):
                module.names.setdefault(token, None)
            if token in ("crate", "super", "self") and after == "::" and before != "::":
                end, path = at, []
                while end < len(found) and (re.match(r"[A-Za-z_]", found[end][0]) or found[end][0] == "::"):
                    if found[end][0] == "::":
                        if not re.match(r"[A-Za-z_]", found[end + 1][0]):
                            break
                    elif path and found[end - 1][0] != "::":
                        break
                    else:
                        path.append(found[end][0])
                    end += 1
                in_visibility = before == "in" and found[at - 2][0] == "("
                if not in_visibility:
                    self.add(path, file, line, module, tested)
                at = end
                continue
            if module is self.root and after == "::" and before != "::" and re.match(r"[a-z_]", token):
                self.add([token], file, line, module, tested, relative=True)
            at += 1
        return at

    def declared(self, file, line, module, child, base, at_path):
        """Reads the file of `mod name;`; `at_path` is the file that #[path] names."""
        plain, folder = base.with_suffix(".rs"), base / "mod.rs"
        module.out_of_line.append(child)
        if at_path:
            return self.read(at_path, child, at_path.parent)
        if plain.is_file() and base.is_dir():
            self.problems.append(f"{file}:{line}: module {base.name} has {base.name}.rs and a folder; expected {base.name}/mod.rs")
        if plain.is_file():
            self.read(plain, child, base)
        elif folder.is_file():
            self.read(folder, child, base)
        else:
            self.problems.append(f"{file}:{line}: module {base.name} has no file; expected {base.name}.rs or {base.name}/mod.rs")
        return None

    def add(self, path, file, line, module, tested, in_use=False, top=False, relative=False):
        if not tested:
            self.paths.append((path, file, line, module, in_use, top, relative))

    def uses(self):
        """Yields each use of another top-level module: user, used module, file and line."""
        for path, file, line, module, in_use, top, relative in self.paths:
            if module is self.root and in_use and top:
                continue  # re-exports; the names that lib.rs imports for itself appear where it uses them
            if relative and path[0] not in self.root.children:
                continue
            room = self.room(path, module, file, line)
            user = module.path[0] if module.path else ROOT
            if room and room != user:
                yield user, room, file, line
        macros = {}
        for module in walk(self.root):
            for name in module.macros:
                macros[name] = module.path[0] if module.path else ROOT
        for name, file, line, module in self.calls:
            user = module.path[0] if module.path else ROOT
            if macros.get(name, user) != user:
                yield user, macros[name], file, line

    def room(self, path, module, file, line):
        """Returns the top-level module in which a path ends, or None for another crate and for a path inside the module of the user."""
        at = list(module.path)
        rest = list(path)
        if rest[0] == "crate":
            at = []
            rest.pop(0)
        elif rest[0] == "self":
            rest.pop(0)
        elif rest[0] == "super":
            while rest and rest[0] == "super":
                at = at[:-1]
                rest.pop(0)
        elif module is not self.root or rest[0] not in self.root.children | self.root.names:
            return None
        if at:
            return at[0]
        name = rest[0] if rest else "*"
        if name in self.root.children:
            return None if self.root.children[name].tested else name
        if name in self.root.names:
            target = self.root.names[name]
            if target is not None and target[0] == name:
                return None  # a crate of the same name
            return ROOT if target is None else self.room(target, self.root, file, line)
        if any(name in it.macros for it in walk(self.root)):
            return next((it.path[0] for it in walk(self.root) if name in it.macros and it.path), ROOT)
        self.problems.append(f"{file}:{line}: cannot tell which module defines crate::{name}")
        return None


def closing(found, at):
    """Returns the index behind the bracket that closes the one at this index."""
    depth = 0
    while at < len(found):
        depth += (found[at][0] in OPEN) - (found[at][0] in CLOSE)
        at += 1
        if depth == 0:
            break
    return at


def only_tests(attribute):
    """True if the attribute leaves its item out of builds that are not tests."""
    text = "".join(attribute)
    return text in ("#[cfg(test)]", "#[cfg(doctest)]", "#[test]") or text.startswith("#[cfg(all(test,")


def names_constant(found, at):
    """True if `const` at this index begins a constant, not a function or a parameter of one."""
    before = found[at - 1][0] if at else ""
    return before not in ("<", ",") and found[at + 1][0] not in ("fn", "unsafe", "async", "extern", "{")


def item_end(found, at):
    """Returns the index behind the item, statement, field or match arm at this index."""
    while at < len(found) and found[at][0] == "#":
        at = closing(found, at + 1)
    whole = False
    while at < len(found):
        token = found[at][0]
        if token in ("use", "static", "type", "let") or token == "const" and names_constant(found, at):
            whole = True
        if token in CLOSE:
            return at
        if token == "{" and not whole:
            return closing(found, at)
        if token in OPEN:
            at = closing(found, at)
            continue
        at += 1
        if token == ";" or token == "," and not whole:
            return at
    return at


def use_tree(found, at, end):
    """Yields the path, the name and the line of each import between two indexes of a `use` declaration."""

    def branch(at, prefix):
        path, line = list(prefix), None
        while at < end:
            token, here = found[at]
            if token == "{":
                at += 1
                while found[at][0] != "}":
                    at = yield from branch(at, path)
                    at += found[at][0] == ","
                return at + 1
            if token in (",", "}"):
                break
            if token == "as":
                yield path, found[at + 1][0], line
                return at + 2
            if token != "::":
                line = here
                if token != "self" or not path:
                    path.append(token)
            at += 1
        yield path, path[-1], line
        return at

    yield from branch(at, [])


def walk(module):
    yield module
    for child in module.children.values():
        yield from walk(child)
