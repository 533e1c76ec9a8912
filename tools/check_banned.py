#!/usr/bin/env python3
"""Functions that the sources may not call, each with what to use instead."""

from __future__ import annotations

import re

from c_source import ROOT, c_files, finish, lines_of

EVERYWHERE = {
    "sprintf|vsprintf": "snprintf, or pyr_buffer_format",
    "strcpy|stpcpy|strcat|strncat|strncpy": "memcpy with a known length, or pyr_buffer",
    "atoi|atol|atoll|atof": "strtol and friends, with their errors checked",
    "strtok|strtok_r|gets": "a loop over the text",
    "tmpnam|tempnam|mktemp": "mkstemp",
    "setjmp|longjmp|sigsetjmp|siglongjmp": "status codes",
}
# Not in tests: what they do to themselves hurts nobody.
IN_THE_PRODUCT = {
    "malloc|calloc|realloc|reallocarray|free|strdup|strndup|alloca": "base/memory.h",
    "asprintf|vasprintf|getline|getdelim|open_memstream": "base/buffer.h",
}
# Nothing of ours may end or write into the application it lives in.
IN_A_HOST = {
    "abort|exit|_Exit|quick_exit|assert": "a status code: the program goes on",
    "printf|puts|putchar|vprintf|perror": "the log queue",
}

# Sees deadlocks in sanitizer and hostile builds only, where stopping at once is the point.
MAY_ABORT = {"src/base/lock.c"}

CALL = r"(?<![\w.>])(?:{})\s*\("


def main() -> None:
    tests = c_files("tests")
    problems = []
    for path in [*c_files("src", "python"), *tests]:
        name = path.relative_to(ROOT).as_posix()
        rules = dict(EVERYWHERE)
        in_tests = name.startswith("tests/")
        if not in_tests and name != "src/base/memory.c":
            rules |= IN_THE_PRODUCT
        if not in_tests and not name.startswith("src/cli/") and name not in MAY_ABORT:
            rules |= IN_A_HOST
        patterns = [(re.compile(CALL.format(names)), use) for names, use in rules.items()]
        for number, line in lines_of(path, strings=False):
            for pattern, use in patterns:
                if match := pattern.search(line):
                    function = match[0].rstrip("( \t")
                    problems.append(f"{name}:{number}: {function} is banned; use {use}")
    finish("banned functions", problems)


if __name__ == "__main__":
    main()
