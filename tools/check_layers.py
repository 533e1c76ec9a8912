#!/usr/bin/env python3
"""Includes point upstream only: a folder may include itself and what is listed for it here."""

from __future__ import annotations

import re
from pathlib import Path

from c_source import ROOT, c_files, finish, lines_of

# Each may include those before it.
CHAIN = (
    "base os model reader cpython unwind collect record encode export schedule session cli".split()
)
PPROF_USERS = {"encode", "export", "cli"}
# The other side of the border knows only pprof.
SERVER_CHAIN = "store query server".split()
SERVER_BASE = {"base", "os", "pprof"}


def allowed() -> dict[str, set[str]]:
    table = {folder: set(CHAIN[: place + 1]) for place, folder in enumerate(CHAIN)}
    for folder in PPROF_USERS:
        table[folder].add("pprof")
    table["pprof"] = {"base", "pprof"}
    for place, folder in enumerate(SERVER_CHAIN):
        table[folder] = SERVER_BASE | set(SERVER_CHAIN[: place + 1])
    table["cli"].update(SERVER_CHAIN)
    table["python/_native"] = set(CHAIN) - {"cli"}
    return table


INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def check(path: Path, table: dict[str, set[str]]) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    folder = path.parent.relative_to(ROOT).as_posix().removeprefix("src/")
    if folder not in table:
        return [f"{name}: folder {folder!r} has no place in the layer order"]
    problems = []
    includes = [
        (number, match[1], match[2])
        for number, line in lines_of(path)
        if (match := INCLUDE.match(line))
    ]
    for number, mark, target in includes:
        where = f"{name}:{number}"
        if mark == "<":
            if (ROOT / "src" / target).exists():
                problems.append(f"{where}: own header {target} needs quotes")
            continue
        if folder == "python/_native" and (path.parent / target).exists():
            continue
        if not (ROOT / "src" / target).exists():
            problems.append(
                f"{where}: {target} is not below src/ (includes are written from there)"
            )
        elif (layer := target.split("/")[0]) not in table[folder]:
            problems.append(f"{where}: {folder} may not include {layer} ({target})")
    own = path.with_suffix(".h")
    if path.suffix == ".c" and own.exists() and includes and folder != "python/_native":
        if includes[0][2] != own.relative_to(ROOT / "src").as_posix():
            problems.append(f"{name}: the first include must be its own header")
    return problems


if __name__ == "__main__":
    layers = allowed()
    finish("layers", [p for f in c_files("src", "python") for p in check(f, layers)])
