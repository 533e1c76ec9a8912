"""Compares the decoder of line tables with the Python that runs this, on its own standard modules.

    python3.X tests/support/check_linetable.py LIBRARY     compare; exit 1 on a difference
    python3.X tests/support/check_linetable.py --cases     print golden cases (tests/golden)

LIBRARY is src/cpython/linetable.c built as a shared library:
    cc -std=c11 -shared -fPIC -Isrc src/cpython/linetable.c -o linetable.so
"""

import ctypes
import importlib.util
import sys
import types

MODULES = """argparse ast asyncio.base_events asyncio.tasks collections configparser contextlib
    datetime dataclasses decimal _pydecimal email.message enum functools http.client inspect
    json.decoder logging os pathlib re._compiler shutil ssl statistics subprocess tarfile textwrap
    threading tokenize typing unittest.mock urllib.parse xml.dom.minidom zipfile""".split()

# Every form of entry, in few bytes: long deltas, backward jumps, code without lines.
SNIPPETS = {
    "jump": "a = [\n  1,\n\n\n\n\n\n  f(),\n]\n" + "\n" * 300 + "b = a\n",
    "back": "x = (lambda:\n  1)(\n  ) + f(\n g(\n  h))\n",
    "with": "def f():\n  with a as b, c:\n    try:\n      return b\n    finally:\n      del b\n",
    "gen": "async def f():\n  async for i in g():\n    yield [j async for j in i\n"
    "      if await j]\n",
    "wide": "y = " + "+".join(f"name_{i}" for i in range(60)) + "\n",
}


def codes_of(code):
    """The code object and all inside it."""
    pending = [code]
    while pending:
        code = pending.pop()
        yield code
        pending.extend(c for c in code.co_consts if isinstance(c, types.CodeType))


def truth(code):
    """Line of each unit, 0 for none, as the interpreter itself decodes the table."""
    lines = []
    for start, end, line in code.co_lines():
        lines.extend([line or 0] * ((end - start) // 2))
    return lines


def module_codes():
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        if spec and spec.origin and spec.origin.endswith(".py"):
            with open(spec.origin, "rb") as source:
                yield from codes_of(compile(source.read(), spec.origin, "exec", dont_inherit=True))


class Run(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint32), ("line", ctypes.c_int32)]


def compare(path):
    library = ctypes.CDLL(path)
    count = ctypes.c_size_t()
    line = ctypes.c_int()
    codes = units = 0
    for code in [
        *module_codes(),
        *(c for s in SNIPPETS.values() for c in codes_of(compile(s, "s", "exec"))),
    ]:
        table = code.co_linetable
        expected = truth(code)
        runs = (Run * (len(expected) + 1))()
        arguments = (table, ctypes.c_size_t(len(table)), code.co_firstlineno)
        status = library.pyr_linetable_expand(
            *arguments, runs, ctypes.c_size_t(len(runs)), ctypes.byref(count)
        )
        assert status == 0, (code, status)
        got = []
        for i in range(count.value - 1):
            got.extend([runs[i].line] * (runs[i + 1].start - runs[i].start))
        last = runs[count.value - 1]
        got.extend([0] * (len(expected) - last.start))
        assert last.line == 0 and got == expected, (code, got, expected)
        for unit in range(0, len(expected), 1 + len(expected) // 50):
            status = library.pyr_linetable_line(
                *arguments, ctypes.c_size_t(unit), ctypes.byref(line)
            )
            assert status == 0 and line.value == expected[unit], (code, unit, status, line.value)
            found = library.pyr_linetable_find(runs, count, ctypes.c_size_t(unit))
            assert found == expected[unit], (code, unit, found)
        codes += 1
        units += len(expected)
    print(f"{sys.version.split()[0]}: {codes} code objects, {units} units: all lines agree")


def cases():
    for name, source in SNIPPETS.items():
        for code in codes_of(compile(source, "s", "exec")):
            runs, last = [], None
            lines = truth(code)
            for unit, line in enumerate(lines):
                if line != last:
                    runs.append(f"{unit}:{line}")
                    last = line
            if last != 0:
                runs.append(f"{len(lines)}:0")
            print(
                f"{sys.version_info[0]}.{sys.version_info[1]} {name} {code.co_firstlineno} "
                f"{code.co_linetable.hex()} {' '.join(runs)}"
            )


if __name__ == "__main__":
    cases() if sys.argv[1] == "--cases" else compare(sys.argv[1])
