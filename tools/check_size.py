#!/usr/bin/env python3
"""A file stays readable: over 600 lines it must say why, with the word "lines", in its header
comment. Every .c file opens with such a comment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from c_source import ROOT, finish, header_comment

MAXIMUM = 600
SUFFIXES = {".c", ".h", ".py", ".sh", ".ts", ".tsx", ".css"}


def opening(path: Path) -> str:
    if path.suffix in {".c", ".h", ".ts", ".tsx", ".css"}:
        return header_comment(path)
    return "\n".join(path.read_text("utf-8").split("\n")[:30])


def main() -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    problems = []
    for name in sorted(set(listing.stdout.splitlines())):
        path = ROOT / name
        if path.suffix not in SUFFIXES or "/dist/" in name or not path.exists():
            continue
        comment = opening(path)
        if name.startswith("src/") and path.suffix == ".c" and not comment:
            problems.append(f"{name}: no header comment")
        count = path.read_text("utf-8").count("\n")
        if count > MAXIMUM and not re.search(r"\blines\b", comment):
            problems.append(f"{name}: {count} lines without a reason in its header comment")
    finish("size", problems)


if __name__ == "__main__":
    main()
