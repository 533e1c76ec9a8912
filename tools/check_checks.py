#!/usr/bin/env python3
"""Proves that the checks can fail: each small tree below breaks one rule and must be refused, and
the sound tree must pass every check. A check that never fires would be worse than none."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS = Path(__file__).resolve().parent

HOOK = """/* Hooks. */
PYR_HOOK_SAFE void pyr_fast(void);
static void inner(void)
{{
    fopen(0, 0);
}}

void pyr_slow(void)
{{
    inner();
}}

void pyr_fast(void)
{{
    memset(0, 0, 0);
    if (deep.call()) {{
        {};
    }}
}}
"""

SOUND = {
    "src/base/status.h": "int pyr_status;\n",
    "src/base/buffer.h": "int pyr_buffer;\n",
    "src/base/buffer.c": '/* A buffer; malloc(1) and 3.12 in words. */\n#include "base/buffer.h"\n'
    '#include <string.h>\n\n#include "base/status.h"\nstatic const char *t = "free(x)";\n',
    "src/os/hook.c": HOOK.format("pyr_fast()"),
    "src/os/os.h": '#include "base/status.h"\n',
    "src/pprof/read.h": '#include "base/status.h"\n',
    "src/encode/encode.c": '/* Encoder. */\n#include "pprof/read.h"\n',
    "src/cpython/layout.h": "enum { A = 0x030d0000 };\n",
    "src/cli/main.c": "/* Program. */\nint main(void) { exit(1); }\n",
    "python/_native/native.c": '/* Face. */\n#include <Python.h>\n#include "base/status.h"\n',
    "tests/unit/test_x.c": "void x(void) { free(malloc(1)); }\n",
}
# Check, what is wrong, file, text.
BROKEN = [
    ("layers", "downstream", "src/base/a.c", '/* A. */\n#include "os/os.h"\n'),
    ("layers", "pprof knows os", "src/pprof/a.c", '/* A. */\n#include "os/os.h"\n'),
    ("layers", "os uses pprof", "src/os/a.c", '/* A. */\n#include "pprof/read.h"\n'),
    ("layers", "server uses encode", "src/store/a.c", '/* A. */\n#include "cpython/layout.h"\n'),
    ("layers", "relative include", "src/os/a.c", '/* A. */\n#include "os.h"\n'),
    ("layers", "unknown folder", "src/misc/a.c", "/* A. */\n#include <stdio.h>\n"),
    (
        "layers",
        "own header not first",
        "src/os/os.c",
        '/* O. */\n#include <stdio.h>\n#include "os/os.h"\n',
    ),
    ("cpython_border", "Python.h", "src/unwind/a.c", "/* A. */\n#include <Python.h>\n"),
    ("cpython_border", "version", "src/unwind/a.c", "/* A. */\nint v = 0x030c;\n"),
    ("cpython_border", "version text", "python/_native/a.c", '/* A. */\nchar *v = "3.12";\n'),
    ("cpython_border", "version pair", "src/unwind/a.c", "/* A. */\nint v[] = {3, 12};\n"),
    ("cpython_border", "field", "src/unwind/a.c", "/* A. */\nint cframe;\n"),
    ("banned", "sprintf", "src/os/a.c", "/* A. */\nvoid f(void) { sprintf(b, c); }\n"),
    ("banned", "malloc", "src/os/a.c", "/* A. */\nvoid *f(void) { return malloc(1); }\n"),
    ("banned", "exit in a host", "src/os/a.c", "/* A. */\nvoid f(void) { exit (1); }\n"),
    ("banned", "strcpy in a test", "tests/unit/test_a.c", "void f(void) { strcpy(a, b); }\n"),
    ("hook_safe", "a call of libc", "src/os/a.c", HOOK.format("printf()")),
    ("hook_safe", "a call through a static function", "src/os/a.c", HOOK.format("inner()")),
    ("hook_safe", "a call of ours", "src/os/a.c", HOOK.format("pyr_slow()")),
    ("size", "601 lines", "src/os/a.c", "/* A. */\n" + "\n" * 601),
    ("size", "no header comment", "src/os/a.c", "int a;\n"),
]


def refuses(check: str, files: dict[str, str]) -> bool:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "tools").mkdir()
        for tool in "c_source.py", f"check_{check}.py":
            shutil.copy(TOOLS / tool, root / "tools" / tool)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        subprocess.run(["git", "init", "-q", name], check=True)
        command = [sys.executable, "-B", str(root / "tools" / f"check_{check}.py")]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.stderr:
            sys.exit(f"check_{check}.py broke:\n{run.stderr}")
        return run.returncode == 1


def main() -> int:
    problems = []
    for check in sorted({case[0] for case in BROKEN}):
        if refuses(check, SOUND):
            problems.append(f"{check}: refuses a sound tree")
    for check, what, path, text in BROKEN:
        if not refuses(check, {**SOUND, path: text}):
            problems.append(f"{check}: does not see {what}")
    print("\n".join(problems) or f"checks: good, {len(BROKEN)} broken trees were refused")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
