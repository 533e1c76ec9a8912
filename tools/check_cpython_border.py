#!/usr/bin/env python3
"""Knowledge of CPython's versions and structures stays in src/cpython, Python.h in python/_native.

So the core builds and is fuzzed without an interpreter, and a new version of Python is work in one
folder. Comments may speak of versions; code may not.
"""

from __future__ import annotations

import re

from c_source import ROOT, c_files, finish, lines_of

VERSIONS = {
    re.compile(r"\b3\s*,\s*1\d\b"): "a Python version number",
    re.compile(r"\b3\.1\d\b"): "a Python version number",
    re.compile(r"0x030[0-9a-fA-F]"): "a Python version number",
    re.compile(r"\bPY_(VERSION|MAJOR|MINOR)\w*"): "PY_VERSION",
    re.compile(r"\bcframe\b|\bf_executable\b"): "a field of CPython",
}
# Compiled against the interpreter's own headers, to compare the discovered layout with them.
COMPARED_WITH_HEADERS = {"python/_native/selfcheck.c", "python/_native/layout_truth.h"}
PYTHON_HEADER = re.compile(r'#\s*include\s*[<"](Python\.h|cpython/|internal/pycore)')


def main() -> None:
    problems = []
    for path in c_files("src", "python"):
        name = path.relative_to(ROOT).as_posix()
        native = name.startswith("python/_native/")
        knows_versions = name.startswith("src/cpython/")
        knows_versions |= name in COMPARED_WITH_HEADERS
        for number, line in lines_of(path):
            is_include = PYTHON_HEADER.search(line)
            if is_include and not native and not line_is_ours(line):
                problems.append(f"{name}:{number}: {is_include[1]} outside python/_native")
            if knows_versions:
                continue
            for pattern, what in VERSIONS.items():
                if pattern.search(line):
                    problems.append(f"{name}:{number}: {what} outside src/cpython: {line.strip()}")
    finish("cpython border", problems)


def line_is_ours(line: str) -> bool:
    """`cpython/` is also the name of our own folder."""
    match = re.search(r'"([^"]+)"', line)
    return match is not None and (ROOT / "src" / match[1]).exists()


if __name__ == "__main__":
    main()
