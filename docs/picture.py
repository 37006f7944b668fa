#!/usr/bin/env python3
"""Draws docs/picture.svg: two runs of the catalogue as a terminal shows them.

    docs/picture.py target/release/conformance

The first run judges our provider. The second run judges it with a bug, so that a check fails. The picture shows what the runs print,
shortened to the lines and columns that fit. Needs only Python."""

import html
import pathlib
import re
import subprocess
import sys

COLUMNS = 112
LINE = 18
MARGIN = 16
COLORS = {"back": "#10151c", "text": "#d5dde7", "dim": "#8595a8", "pass": "#5fd38d", "fail": "#ff7b72", "command": "#79c0ff"}

# Arguments of each run, and the patterns of the lines to show.
RUNS = [
    ("run --mode vcenter --no-cost NODE-DEL LIFE-005", [r"^NODE-DEL-0(01|02|04|06|07|10) ", r"^LIFE-005 ", r"passed, "]),
    (
        "run --mode vcenter --no-cost NODE-DEL-002 --mutant ErrorIsGone",
        [r"^NODE-DEL-002 .*FAIL", r"^  (FAIL: the provider deleted Nodes of existing machines: node-0001$|case:|remedy:)", r"FindAllByUuid .*111", r"^ *111\.000s", r"^  again:"],
    ),
]


def lines_of(conformance: str) -> list[str]:
    shown: list[str] = []
    for arguments, patterns in RUNS:
        command = f"conformance {arguments}"
        # Exit code 1 is a verdict; the second run ends with it.
        run = subprocess.run([conformance, *arguments.split()], capture_output=True, text=True)
        if run.returncode not in (0, 1):
            sys.exit(f"{command}: exit code {run.returncode}: {run.stderr.strip()}")
        wanted = [line for line in run.stdout.splitlines() if any(re.search(it, line) for it in patterns)]
        if not wanted:
            sys.exit(f"{command}: no line of its output fits the patterns")
        shown += [f"$ {command}", *wanted, ""]
    return shown[:-1]


def short(line: str) -> str:
    line = re.sub(r"; (\d+) cases, seed 0, .*", r"; \1 cases", line)
    line = re.sub(r" {2,}\d+ cases +\d+ ms  ", "  ", line)
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def color(line: str) -> str:
    if line.startswith("$ "):
        return "command"
    if "FAIL" in line or "0 passed" in line:
        return "fail"
    if re.search(r"\bpass\b", line) or " passed, 0 failed" in line:
        return "pass"
    return "dim" if line.startswith("  ") else "text"


def svg(lines: list[str]) -> str:
    width, height = COLUMNS * 8 + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    rows = []
    for n, line in enumerate(map(short, lines)):
        y = MARGIN + (n + 1) * LINE - 5
        rows.append(f'<text x="{MARGIN}" y="{y}" fill="{COLORS[color(line)]}" xml:space="preserve">{html.escape(line)}</text>')
    label = "Two runs of the catalogue: our provider passes; with a bug it fails NODE-DEL-002, with case, remedy and transcript"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}"'
            ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">',
            f'<rect width="{width}" height="{height}" rx="8" fill="{COLORS["back"]}"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = pathlib.Path(__file__).with_name("picture.svg")
    target.write_text(svg(lines_of(sys.argv[1])))
    print(f"written: {target}")
