"""Compares the depth at every call of many standard modules with a second, independent analysis.

    python3.13 tests/support/check_bytecode.py LEAF_PROBE.so

The second analysis works on dis.get_instructions and dis.stack_effect of the running interpreter,
knows nothing of tables or of specialised opcodes, and is written differently on purpose. Both the
bytecode as compiled and as it stands in memory after a warm-up are checked.
"""

import ctypes
import dis
import importlib
import random
import sys
import types

MINOR = sys.version_info[1]
MODULES = ("argparse ast asyncio.base_events asyncio.tasks asyncio.streams collections contextlib "
           "dataclasses datetime decimal difflib email.message enum functools http.client "
           "inspect json.decoder logging logging.config mailbox os pickle pprint queue random re "
           "shutil socket ssl statistics subprocess tarfile tempfile textwrap threading "
           "traceback typing unittest.mock urllib.request uuid xml.dom.minidom zipfile").split()
KINDS = {"CALL": 2, "PRECALL": 2, "CALL_KW": 3, "CALL_FUNCTION_EX": 4, "BEFORE_WITH": 5,
         "WITH_EXCEPT_START": 6}
STOPS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD",
         "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT"}
CODE_FLAGS_GENERATOR = 0x20 | 0x80 | 0x200


def all_codes(modules):
    seen = {}
    for module in modules:
        with open(module.__file__, encoding="utf-8") as file:
            todo = [compile(file.read(), module.__file__, "exec")]
        while todo:
            code = todo.pop()
            seen[id(code)] = code
            todo += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return list(seen.values())


def live_codes(modules):
    """Codes of functions that the interpreter really holds, specialised by use."""
    for module in modules:
        for value in list(vars(module).values()):
            members = list(vars(value).values()) if isinstance(value, type) else [value]
            for member in members:
                member = getattr(member, "__func__", getattr(member, "fget", member))
                if isinstance(member, types.FunctionType):
                    yield member.__code__


def simulate(code):
    """{unit: (kind, depth, oparg)} of the calls of `code`, by dis alone."""
    instructions = [i for i in dis.get_instructions(code)]
    index_of = {i.offset: n for n, i in enumerate(instructions)}
    has_start = MINOR <= 12 and code.co_flags & CODE_FLAGS_GENERATOR
    depths = {}
    # 3.11 and 3.12 book a generator's first value from the start; it arrives at RETURN_GENERATOR.
    todo = [(0, 1 if has_start else 0)]
    for entry in dis._parse_exception_table(code):
        todo.append((index_of[entry.target], entry.depth + (1 if entry.lasti else 0) + 1))
    while todo:
        n, depth = todo.pop()
        if n in depths:
            assert depths[n] == depth, (code, instructions[n], depths[n], depth)
            continue
        depths[n] = depth
        instruction = instructions[n]
        arg = instruction.arg
        if MINOR <= 12 and instruction.opcode < dis.HAVE_ARGUMENT:
            arg = None
        if instruction.opcode in dis.hasjrel and instruction.opname != "END_ASYNC_FOR":
            effect = dis.stack_effect(instruction.opcode, arg, jump=True)
            todo.append((index_of[instruction.argval], depth + effect))
        if instruction.opname not in STOPS:
            effect = dis.stack_effect(instruction.opcode, arg, jump=False)
            todo.append((n + 1, depth + effect))
    calls = {}
    for n, instruction in enumerate(instructions):
        kind = KINDS.get(instruction.opname)
        if kind is None or n not in depths:
            continue
        arg = instruction.arg or 0
        depth = depths[n]
        if MINOR == 11 and instruction.opname == "CALL":
            depth += arg  # PRECALL has popped them in the compiler's books, not in truth
        calls[instruction.offset // 2] = (kind, depth, arg)
    return calls


def analyse(probe, code, units):
    maximum = len(units)
    out = (ctypes.c_uint32 * (4 * maximum))()
    count = probe.probe_sites(MINOR, units, len(units) // 2, code.co_exceptiontable,
                              len(code.co_exceptiontable), code.co_stacksize, out, maximum)
    assert count <= maximum, "analysis failed"
    return {out[4 * i]: (out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]) for i in range(count)}


def warm_up():
    import json
    import textwrap
    for _ in range(200):
        json.loads(json.dumps({"a": [1, 2.5, "x", None, {"b": True}]}))
        textwrap.wrap("the quick brown fox jumps over the lazy dog " * 3, 20)
        random.sample(range(100), 10)


def main():
    probe = ctypes.CDLL(sys.argv[1])
    probe.probe_sites.restype = ctypes.c_size_t
    probe.probe_sites.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                  ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p,
                                  ctypes.c_size_t]
    probe.probe_analysis_us.restype = ctypes.c_double
    probe.probe_analysis_us.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t,
                                        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32,
                                        ctypes.c_size_t]
    modules = []
    for name in MODULES:
        try:
            modules.append(importlib.import_module(name))
        except ImportError:
            print(f"  {name}: not here")
    warm_up()
    codes, sites, wrong, bad_bounds, missing, extra, changed = 0, 0, 0, 0, 0, 0, 0
    cost_us = []
    for code in all_codes(modules) + list(live_codes(modules)):
        expected = simulate(code)
        codes += 1
        for units in (code.co_code, code._co_code_adaptive):
            found = analyse(probe, code, units)
            changed += units is not code.co_code and units != code.co_code
            sites += len(found)
            missing += len(set(expected) - set(found))
            extra += len(set(found) - set(expected))
            bad_bounds += sum(not 0 < depth <= code.co_stacksize
                              for _, depth, _ in found.values())
            for unit, value in found.items():
                if unit in expected and expected[unit] != value:
                    wrong += 1
                    if wrong < 10:
                        print("  wrong:", code, unit, value, expected[unit])
        if codes % 20 == 0:
            cost_us.append(probe.probe_analysis_us(MINOR, code._co_code_adaptive,
                                                   len(code.co_code) // 2, code.co_exceptiontable,
                                                   len(code.co_exceptiontable), code.co_stacksize,
                                                   20))
    cost_us.sort()
    print(f"{sys.version.split()[0]}: {codes} codes ({changed} differ in memory), {sites} sites, "
          f"{wrong} wrong depths, {bad_bounds} out of bounds, {missing} missing, {extra} extra; "
          f"analysis {cost_us[len(cost_us) // 2]:.2f} us median, "
          f"{sum(cost_us) / len(cost_us):.2f} us mean")
    return 1 if wrong or bad_bounds or missing or extra or not sites else 0


if __name__ == "__main__":
    sys.exit(main())
