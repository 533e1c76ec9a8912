#!/usr/bin/env python3
"""What is marked PYR_HOOK_SAFE calls only what is marked, or a short list of libc.

A marked function may run in an allocator hook, a signal handler or a fork child: it allocates
nothing, waits for nothing and takes no lock. The check reads the sources as clang-format lays them
out (a function's braces stand alone in the first column) and follows `static` functions into their
bodies. Calls through pointers it cannot follow; those are for review.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from c_source import ROOT, c_files, finish, without_comments

LIBC = set(
    """memcpy memmove memset memcmp memchr strlen strnlen syscall clock_gettime getpid gettid
    geteuid getrandom madvise mmap close fstat unlink process_vm_readv process_vm_writev
    pthread_mutex_init
    pthread_mutex_trylock pthread_mutex_unlock pthread_self raise sem_post sched_yield log expm1
    va_start va_end va_arg offsetof""".split()
)
HARMLESS = re.compile(r"__builtin_|__atomic_|__sync_|atomic_|[A-Z_][A-Z0-9_]*$")
KEYWORDS = set(
    "if while for switch return sizeof volatile _Alignof _Static_assert static_assert".split()
)
CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")
MARKED = re.compile(r"\bPYR_HOOK_SAFE\b[^;{}]*?\b(pyr_\w+)\s*\(")
ENDS = re.compile(r"^[}#]|;\s*$")  # what comes before a function's head
NAME = re.compile(r"\b(?!__attribute__)([a-z_]\w*)\s*\(")


class Function(NamedTuple):
    file: Path
    is_static: bool
    calls: list[str]


def functions_of(path: Path, text: str) -> list[tuple[str, Function]]:
    """The functions that a file defines, by name."""
    found = []
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.rstrip() != "{":
            continue
        start = at
        while start > 0 and lines[start - 1].strip() and not ENDS.search(lines[start - 1]):
            start -= 1
        signature = " ".join(lines[start:at])
        end = next((n for n in range(at, len(lines)) if lines[n].rstrip() == "}"), len(lines))
        match = NAME.search(signature)
        if match:
            body = "\n".join(row for row in lines[at:end] if not row.lstrip().startswith("#"))
            calls = [name for name in CALL.findall(body) if name not in KEYWORDS]
            is_static = bool(re.search(r"\bstatic\b", signature))
            found.append((match[1], Function(path, is_static, calls)))
    return found


def main() -> None:
    defined: dict[str, list[Function]] = defaultdict(list)
    marked: set[str] = set()
    for path in c_files("src", "python"):
        text = without_comments(path.read_text("utf-8"), strings=False)
        marked.update(MARKED.findall(text))
        for name, function in functions_of(path, text):
            defined[name].append(function)

    problems = []

    def follow(root: str, function: Function, way: list[str], seen: set[str]) -> None:
        for name in function.calls:
            if name in marked or name in LIBC or HARMLESS.match(name) or name in seen:
                continue
            seen.add(name)
            own = [f for f in defined[name] if f.is_static and (f.file == function.file)]
            inline = [f for f in defined[name] if f.is_static and f.file.suffix == ".h"]
            if own or inline:
                follow(root, (own or inline)[0], [*way, name], seen)
            elif defined[name] or not name.startswith("pyr_"):
                where = function.file.relative_to(ROOT)
                problems.append(f"{where}: {' -> '.join([*way, name])}: not hook safe")

    for name in sorted(marked):
        for function in defined[name]:
            follow(name, function, [name], set())
    finish(f"hook safety ({len(marked)} functions)", problems)


if __name__ == "__main__":
    main()
