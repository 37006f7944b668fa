#!/usr/bin/env python3
"""Links of the documents: checks them, and adapts them to the book.

  docs/links.py check          checks the links of every Markdown file of the repository, the paths in it that name a file of the repository,
                               and that each block of Rust in it is code that cargo compiles
  docs/links.py check FOLDER   also checks every link and anchor of the built book

mdBook runs the script as a preprocessor (book.toml). A chapter that consists of one link to a file in Markdown shows this file, with
its links adapted. A link to a file that has a page leads to the page. Any other link out of docs becomes the name of the file,
because the book is published without the repository.
"""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CODE = re.compile(r"(^(?P<fence>```|~~~).*?^(?P=fence)[^\n]*$|`[^`\n]*`)", re.M | re.S)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
PATH = re.compile(r"`((?:sim|provider|conformance|docs|kind|mutants|fixtures|benches|fuzz)/[\w./-]+)`")
RUST = re.compile(r"^ *```rust[^\n]*\n(?P<text>.*?)^ *```$", re.M | re.S)
INCLUDE = re.compile(r"\s*\{\{#include (?P<path>\S+\.rs):(?P<anchor>[\w-]+)\}\}\s*")
INCLUDED = re.compile(r"\s*\[[^\]]*\]\((?P<path>\S+\.md)\)\s*")
REMOTE = re.compile(r"[a-z]+:", re.I)


def main():
    command = sys.argv[1:2]
    if not command:
        preprocess()
    elif command == ["supports"]:
        sys.exit(0)
    elif command == ["check"]:
        problems = list(markdown_problems())
        if sys.argv[2:]:
            problems += html_problems(Path(sys.argv[2]).resolve())
        if problems:
            sys.exit("\n".join(problems))
    else:
        sys.exit("usage: docs/links.py check [FOLDER]")


# The preprocessor.


def preprocess():
    _, book = json.load(sys.stdin)
    items = book["items"] if "items" in book else book["sections"]
    chapters = list(chapters_of(items))
    shown = {}
    for chapter in chapters:
        source = DOCS / chapter["path"]
        if found := INCLUDED.fullmatch(chapter["content"]):
            source = (source.parent / found["path"]).resolve()
            chapter["content"] = source.read_text()
        shown[source] = DOCS / chapter["path"]
        chapter["from"] = source
    shown[ROOT / "README.md"] = DOCS / "introduction.md"
    for chapter in chapters:
        chapter["content"] = adapted(chapter["content"], chapter.pop("from"), DOCS / chapter["path"], shown)
    json.dump(book, sys.stdout)


def chapters_of(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            if item["Chapter"]["path"]:
                yield item["Chapter"]
            yield from chapters_of(item["Chapter"]["sub_items"])


def adapted(text, source, page, shown):
    """The text of a source, with links that are valid on the page."""

    def adapt(link):
        path, anchor = divided(link["target"])
        if REMOTE.match(link["target"]) or not path:
            return link[0]
        target = (source.parent / path).resolve()
        target = shown.get(target, shown.get(target / "README.md", target))
        if target.is_relative_to(DOCS) and target.suffix and (target in shown.values() or target.suffix != ".md"):
            return f"{link['image']}[{link['text']}]({os.path.relpath(target, page.parent)}{anchor})"
        # The file's name follows the text, unless the text has it already.
        return link["text"] if target.name in restore(link["text"]) else f"{link['text']} (`{target.relative_to(ROOT)}`)"

    # A link may contain code, and code may contain what looks like a link, so the code is set aside for that time.
    kept = []

    def set_aside(found):
        kept.append(found[0])
        return f"\0{len(kept) - 1}\0"

    def restore(part):
        return re.sub("\0(\\d+)\0", lambda it: kept[int(it[1])], part)

    return restore(LINK.sub(adapt, CODE.sub(set_aside, text)))


def divided(target):
    path, mark, anchor = unquote(target).partition("#")
    return path, mark + anchor


# The checks.


def markdown_problems():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = sorted({ROOT / name for name in listed.split()} | set(DOCS.rglob("*.md")))
    n = 0
    for file in (it for it in files if it.exists()):
        # Code that is a text of a link does not matter here.
        for link in LINK.finditer(CODE.sub("", file.read_text())):
            path, anchor = divided(link["target"])
            if REMOTE.match(link["target"]):
                continue
            n += 1
            target = (file.parent / path).resolve() if path else file
            if not target.exists():
                yield f"{file.relative_to(ROOT)}: {link['target']}: this file does not exist"
            elif anchor and target.suffix == ".md" and anchor[1:] not in headings(target):
                yield f"{file.relative_to(ROOT)}: {link['target']}: {target.relative_to(ROOT)} has no such heading"
        for path in PATH.findall(FENCED.sub("", file.read_text())):
            if not (ROOT / path).exists() and not (file.parent / path).exists():
                yield f"{file.relative_to(ROOT)}: {path}: this file does not exist"
        for block in RUST.finditer(file.read_text()):
            if why := uncompiled(file, block["text"]):
                yield f"{file.relative_to(ROOT)}: Rust that nothing compiles, `{block['text'].strip().splitlines()[0]}`: {why}"
    listed = {(DOCS / link["target"]).resolve() for link in LINK.finditer((DOCS / "SUMMARY.md").read_text())}
    for page in sorted(set(DOCS.rglob("*.md")) - listed - {DOCS / "SUMMARY.md"}):
        yield f"{page.relative_to(ROOT)}: the book does not list this page; remedy: add it to docs/SUMMARY.md"
    print(f"{n} links in {len(files)} Markdown files")


def uncompiled(file, block):
    """The reason why cargo does not compile a block of Rust; None if it does. A page of the book includes the block from a source file. The README
    of a crate is included by the documentation of the crate, whose examples are tests."""
    if not file.is_relative_to(DOCS):
        library = file.parent / "src/lib.rs"
        if library.exists() and f'#[doc = include_str!("../{file.name}")]' in library.read_text():
            return None
        return f"include this file in the documentation of a crate, or move the code to {DOCS.name} and include it from a source file"
    found = INCLUDE.fullmatch(block)
    if not found:
        return "include it from a source file, {{#include FILE:ANCHOR}}"
    source = (file.parent / found["path"]).resolve()
    if not source.exists() or f"// ANCHOR: {found['anchor']}\n" not in source.read_text():
        return f"{found['path']} does not exist, or has no anchor {found['anchor']}"
    return None


def headings(file):
    """The anchors of the headings of a file, as GitHub and mdBook make them."""
    text = file.read_text()
    if found := INCLUDED.fullmatch(text):
        return headings((file.parent / found["path"]).resolve())
    text = FENCED.sub("", text)
    anchors, counts = set(), {}
    for title in re.findall(r"^#{1,6} +(.*?)\s*#*$", text, re.M):
        title = LINK.sub(lambda it: it["text"], title)
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        n = counts[anchor] = counts.get(anchor, -1) + 1
        anchors.add(f"{anchor}-{n}" if n else anchor)
    return anchors


class Page(HTMLParser):
    """The anchors and the links of a page of the book."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = {""}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img"):
                self.links.append(value)


def html_problems(folder):
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html")) if path.name not in ("print.html", "404.html", "toc.html")}
    n = 0
    for path, page in pages.items():
        for link in page.links:
            if REMOTE.match(link) or link.startswith("//"):
                continue
            n += 1
            target, anchor = divided(link)
            file = (path.parent / target).resolve() if target else path
            if not file.is_file():
                yield f"{path.relative_to(folder)}: {link}: the book has no such file"
            elif file in pages and anchor[1:] not in pages[file].anchors:
                yield f"{path.relative_to(folder)}: {link}: the page has no such anchor"
    print(f"{n} links in {len(pages)} pages of the book")


if __name__ == "__main__":
    main()
