"""Names are those of the code that ran: Python functions that come and go, and C functions.

Exact: one wrong name is a failure. With PYROMETER_ACCURACY_LONG it is a million code objects.
"""

import pytest
from truth import FINE, LONG, has, measured

pytestmark = pytest.mark.beside_others  # exact, however many looks there are

CODES = 1_000_000 if LONG else 100_000


@pytest.mark.timeout(120 + 10 * LONG)
def test_br_010_names_while_code_comes_and_goes(tmp_path):
    """Each code object says who it is by name, file and line; its address is used again at once.

    They are made by `code.replace`, which is quicker than compiling; each tenth by `exec`.
    """
    found = measured(
        tmp_path,
        f"""
        from inside import *

        def pattern(n):
            for _ in range(n): pass
        def make(number):
            name = f"made_{{number}}"
            if number % 10 == 0:
                space = {{}}
                text = "\\n" * (number % 100) + f"def {{name}}(n):\\n  for _ in range(n): pass"
                exec(compile(text, f"<{{name}}>", "exec"), space)
                return space[name]
            kind = type(pattern)
            names = {{"co_name": name, "co_qualname": name, "co_filename": f"<{{name}}>"}}
            code = pattern.__code__.replace(co_firstlineno=number % 100 + 1, **names)
            return kind(code, {{}}, name)
        def work():
            for number in range({CODES}):
                make(number)(300)
        measure(work)
        """,
        **FINE,
    )
    seen = set()
    for sample in found.samples:
        for name, file, line in sample.stack:
            if file.startswith("<made_") or name.startswith("made_"):
                if name == "<module>":  # of the text that was executed
                    assert int(file[6:-1]) % 10 == 0
                    continue
                assert file == f"<{name}>", sample.stack
                first = int(name[5:]) % 100 + 1
                assert first <= line <= first + 1, sample.stack
                seen.add(name)
    assert len(seen) > 50
    print(f"{CODES} code objects, {len(seen)} of them seen, none under a wrong name")


LEAVES = {
    "compress": ("zlib.compress(data)", {"zlib.compress"}),
    "sort": ("sorted(numbers)", {"sorted"}),
    "digest": ("hashlib.sha256(data)", {"_hashlib.openssl_sha256"}),
    "replace": ("text.replace('a', 'bc')", {"str.replace"}),
    "scan": ("pattern.findall(text)", {"re.Pattern.findall"}),
    "nap": ("time.sleep(0.01)", {"time.sleep"}),
    "wait": ("lock.acquire(timeout=0.01)", {"_thread.lock.acquire"}),
    "count": ("data.count(7)", {"bytes.count"}),
}


def test_c_functions_are_the_leaf(tmp_path):
    """Of long calls nearly every look shows the C function, and none ever shows another one."""
    calls = "\n".join(
        f"""
        def {name}():
            end = time.monotonic() + 0.4
            while time.monotonic() < end: {call}
        """
        for name, (call, _) in LEAVES.items()
    )
    found = measured(
        tmp_path,
        f"""
        import hashlib, random, re, zlib
        from inside import *

        data = bytes(range(256)) * 4000
        numbers = [random.random() for _ in range(100000)]
        text = "abc" * 100000
        pattern = re.compile("[de]")
        lock = threading.Lock()
        lock.acquire()
        {calls}
        def work():
            {"; ".join(f"{name}()" for name in LEAVES)}
        measure(work)
        """,
        **FINE,
    )
    for name, (_, leaves) in LEAVES.items():
        inside = [sample for sample in found.samples if has(name)(sample)]
        natives = {sample.stack[0][0] for sample in inside if sample.stack[0][1] == "<native>"}
        assert natives <= leaves | {"time.monotonic"}, (name, natives)
        known = sum(s.values["wall-time"] for s in inside if s.stack[0][0] in leaves)
        assert known >= 0.8 * sum(s.values["wall-time"] for s in inside), name
