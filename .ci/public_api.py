#!/usr/bin/env python3
"""Compares the public API of the library crates with the lists in the repository.

The list of a crate, `public-api.txt` in its folder, comes from the HTML that `cargo doc` writes: for each item its declaration, then its own
methods and constants. Methods of traits are not in the list, nor items that the documentation hides.

    .ci/public_api.py                    compares; prints the difference and exits with 1 if a list is not current
    .ci/public_api.py --write            writes the lists
    .ci/public_api.py [--write] CRATE…   only these crates, by the names of their libraries
"""

import difflib
import html
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def crates():
    """Returns the folder of each published library of the workspace, by its name."""
    found = {}
    for member in tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["members"]:
        manifest = tomllib.loads((ROOT / member / "Cargo.toml").read_text(encoding="utf-8"))
        if manifest["package"].get("publish") is not False:
            name = manifest.get("lib", {}).get("name", manifest["package"]["name"].replace("-", "_"))
            found[name] = ROOT / member
    return found


def text(markup):
    """Returns the text of HTML in one line, without the markup and without the links to sources."""
    markup = re.sub(r'<a class="src[^>]*>.*?</a>', "", markup)
    markup = re.sub(r"<details[^>]*>|</details>|<summary.*?</summary>", "", markup, flags=re.S)
    plain = html.unescape(re.sub(r"<[^>]+>", "", markup)).replace("\u200b", "")
    return re.sub(r"\s+", " ", plain).strip()


def own(page):
    """Returns the part of a page that describes the item itself, without the implementations of traits."""
    return re.split(r'id="(?:trait-implementations|implementors|foreign-impls)"', page)[0]


def pages(index):
    """Yields the pages that a module's page leads to, and the page itself, in the order of their paths. Files of items that no longer exist
    stay in the folder, but no page leads to them."""
    markup = index.read_text(encoding="utf-8")
    links = re.findall(r'<a class="(\w+)" href="([^"/]+(?:/index)?\.html)"', markup)
    found = {index.parent / link: kind for kind, link in links}
    for page in sorted([*found, index]):
        if found.get(page) == "mod":
            yield from pages(page)
        else:
            yield page


def lines(folder):
    """Returns the lines of a crate's list, sorted by module and item."""
    found = []
    for page in pages(folder / "index.html"):
        module = "::".join(page.relative_to(folder.parent).parts[:-1])
        name = page.name.split(".")
        markup = page.read_text(encoding="utf-8")
        if page.name == "index.html":
            exports = re.findall(r'id="reexport\.[^"]+">(.*?)</code>', markup, flags=re.S)
            found += [f"{module}: {text(export)}" for export in exports]
            continue
        declaration = re.search(r'<pre class="rust item-decl">(.*?)</pre>', markup, flags=re.S)
        if len(name) != 3 or declaration is None:
            continue
        item = f"{module}::{name[1]}"
        found.append(f"{item}: {text(declaration[1])}")
        members = re.findall(r'<h4 class="code-header">(.*?)</h4>', own(markup), flags=re.S)
        found += sorted(f"{item}: {text(member)}" for member in members)
    return [line + "\n" for line in found]


def main():
    known = crates()
    names = [name for name in sys.argv[1:] if name != "--write"]
    if unknown := set(names) - set(known):
        sys.exit(f"unknown crate {sorted(unknown)[0]}: expected {', '.join(known)}")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    # The command of the stage `docs`, so that cargo has nothing to do after it.
    subprocess.run(["cargo", "doc", "--no-deps", "--locked", "--quiet"], cwd=ROOT, check=True)
    is_current = True
    for crate in names or known:
        now = lines(target / "doc" / crate)
        if not now:
            sys.exit(f"cannot list the public API of {crate}: no items in {target / 'doc' / crate}")
        file = known[crate] / "public-api.txt"
        if "--write" in sys.argv[1:]:
            file.write_text("".join(now), encoding="utf-8")
            continue
        listed = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        difference = list(difflib.unified_diff(listed, now, str(file.relative_to(ROOT)), "cargo doc", n=0))
        if difference:
            is_current = False
            sys.stdout.writelines(difference)
    if not is_current:
        sys.exit("the public API has changed; if you want that, run `.ci/public_api.py --write` and say so in CHANGELOG.md")


main()
