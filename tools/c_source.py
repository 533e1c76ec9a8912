"""C sources as the checks see them: which files there are, and their text without comments."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TOKENS = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | (?P<kept> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )""",
    re.DOTALL | re.VERBOSE,
)


def c_files(*folders: str) -> list[Path]:
    """The .c and .h files below folders of the checkout, in a stable order."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.[ch]")]
    return sorted(found)


def without_comments(text: str, strings: bool = True) -> str:
    """Blanks comments, and literals unless `strings`; lines keep their numbers."""

    def blank(match: re.Match[str]) -> str:
        kept = match["kept"]
        if kept is not None:
            return kept if strings else kept[0] + kept[0]
        return " " + "\n" * match[0].count("\n")

    return TOKENS.sub(blank, text)


def lines_of(path: Path, strings: bool = True) -> Iterator[tuple[int, str]]:
    """Numbered lines of a C file without its comments."""
    text = path.read_text(encoding="utf-8")
    yield from enumerate(without_comments(text, strings).split("\n"), start=1)


def header_comment(path: Path) -> str:
    """The comment that opens a C file; empty when code comes first."""
    match = re.match(r"\s*(/\*.*?\*/|(?://[^\n]*\n)+)", path.read_text("utf-8"), re.DOTALL)
    return match[0] if match else ""


def finish(what: str, problems: list[str]) -> None:
    """Prints the findings of a check and ends the program with its verdict."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problems" if problems else f"{what}: good")
    sys.exit(1 if problems else 0)
