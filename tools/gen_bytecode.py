#!/usr/bin/env python3
"""Writes src/cpython/bytecode_3XX.c: what each opcode of the running interpreter does.

Run it under each supported interpreter. A row tells the kind of call, where control goes, how many
cache units follow, and the stack effect as a small formula. Every formula is proved here against
the interpreter's own stack_effect over many arguments; what does not fit stops the run, so a new
opcode cannot slip in unnoticed.

    python3.13 tools/gen_bytecode.py             # writes the table of 3.13
    python3.13 tools/gen_bytecode.py --check     # exits 1 when the checked-in table differs
    python3.13 - --stdout < tools/gen_bytecode.py
"""

import _opcode
import opcode
import os
import sys

MINOR = sys.version_info[1]

ARGS = list(range(1024)) + [1 << n for n in range(11, 21)] + [(1 << n) - 1 for n in range(11, 21)]

# Instructions whose true opcode stands elsewhere (or that no code object contains).
HIDDEN = {"INSTRUMENTED_LINE", "INSTRUMENTED_INSTRUCTION", "ENTER_EXECUTOR", "TRACE_RECORD",
          "RESERVED"}

STOPS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"}

KINDS = {"CALL": "CALL", "PRECALL": "CALL", "CALL_KW": "CALL_KW", "CALL_FUNCTION_EX": "CALL_EX",
         "BEFORE_WITH": "ENTER", "WITH_EXCEPT_START": "EXIT"}

# Neither call anything nor drop a reference to an object that could die.
PURE = {"CACHE", "NOP", "RESUME", "EXTENDED_ARG", "LOAD_FAST", "LOAD_FAST_BORROW",
        "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_LOAD_FAST",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_DEREF",
        "LOAD_CLOSURE", "LOAD_COMMON_CONSTANT", "LOAD_ASSERTION_ERROR", "PUSH_NULL", "COPY",
        "SWAP", "KW_NAMES", "NOT_TAKEN", "COPY_FREE_VARS", "PUSH_EXC_INFO", "JUMP_FORWARD",
        "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
if MINOR >= 13:  # only bools reach these since; before, they asked any object for its truth
    PURE |= {"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT"}

# What a call specialised for C calls, by parts of its name; the first that fits counts. One that is
# specialised for Python functions but finds a C function runs the general code: nothing follows.
FORMS = [("_TYPE_1", "TYPE"), ("_STR_1", "CLASS"), ("_TUPLE_1", "CLASS"),
         ("_BUILTIN_CLASS", "CLASS"), ("_LIST_APPEND", "DESCRIPTOR"),
         ("_METHOD_DESCRIPTOR_", "DESCRIPTOR"), ("_LEN", "FUNCTION"), ("_ISINSTANCE", "FUNCTION"),
         ("_BUILTIN_", "FUNCTION")]

# Effects that are no sum of constant, argument and its lowest bit.
SPECIAL = {
    "UNPACK": lambda arg: (arg & 0xFF) + (arg >> 8),                    # UNPACK_EX
    "POPCOUNT": lambda arg: -bin(arg & 15).count("1"),                  # MAKE_FUNCTION
    "SLICE": lambda arg: -2 if arg == 3 else -1,                        # BUILD_SLICE
    "FORMAT": lambda arg: -1 if arg & 4 else 0,                         # FORMAT_VALUE
}

# Where the compiler's books differ from what the instruction does: (what it says, what is true).
# 3.11's compiler lets PRECALL pop the arguments, but CALL does it. A generator's first value is
# pushed by whoever resumes it, which 3.11 and 3.12 book by starting generators at depth 1.
COMPILER = {}
if MINOR <= 12:
    COMPILER["RETURN_GENERATOR"] = (lambda arg: 0, lambda arg: 1)
if MINOR == 11:
    COMPILER["PRECALL"] = (lambda arg: -arg, lambda arg: 0)
    COMPILER["CALL"] = (lambda arg: -1, lambda arg: -1 - arg)


def opcodes():
    """{number: (name, base name)} of all opcodes that can stand in memory."""
    import dis
    numbers = dict(opcode.opmap)
    numbers.update(getattr(opcode, "_specialized_opmap", {}))
    numbers.update(getattr(dis, "_all_opmap", {}))
    base = {special: name for name, specials in opcode._specializations.items()
            for special in specials}
    missing = set(base) - set(numbers)
    assert not missing, f"specialised opcodes without a number: {missing}"
    result = {}
    for name, number in numbers.items():
        if number > 255 or name in HIDDEN:
            continue
        plain = base.get(name, name)
        if plain.startswith("INSTRUMENTED_"):
            plain = plain[len("INSTRUMENTED_"):]
        assert plain in opcode.opmap, name
        assert number not in result, (name, result[number])
        result[number] = (name, plain)
    return result


def effect(name, arg, jump):
    number = opcode.opmap[name]
    takes_arg = MINOR >= 13 or number >= opcode.HAVE_ARGUMENT
    value = _opcode.stack_effect(number, arg if takes_arg else None, jump=jump)
    if name in COMPILER:
        books, truth = COMPILER[name]
        assert value == books(arg), name
        return truth(arg)
    return value


def fit(name):
    """(constant, per argument, per lowest bit, special, jump's difference), proved over ARGS."""
    values = [effect(name, arg, False) for arg in ARGS]
    differences = {effect(name, arg, True) - value for arg, value in zip(ARGS, values)}
    assert len(differences) == 1, f"{name}: a jump's effect depends on the argument"
    difference = differences.pop()
    base, per_arg = values[0], (values[2] - values[0]) // 2
    per_bit = values[1] - base - per_arg
    if all(value == base + per_arg * arg + per_bit * (arg & 1)
           for arg, value in zip(ARGS, values)):
        return base, per_arg, per_bit, "LINEAR", difference
    for special, formula in SPECIAL.items():
        if all(value == formula(arg) for arg, value in zip(ARGS, values)):
            return 0, 0, 0, special, difference
    raise SystemExit(f"gen_bytecode: the stack effect of {name} fits no known form")


def flow(name):
    if name == "EXTENDED_ARG":
        return "PREFIX"
    if name in STOPS:
        return "STOP"
    # END_ASYNC_FOR's argument leads back to its SEND, for instrumentation; it does not jump.
    if opcode.opmap[name] not in opcode.hasjrel or name == "END_ASYNC_FOR":
        return "NEXT"
    way = "BACK" if "BACKWARD" in name else "AHEAD"
    return way + "_ALWAYS" if name.startswith("JUMP_") and "_OR_POP" not in name else way


def caches(name):
    entries = opcode._inline_cache_entries
    return entries[opcode.opmap[name]] if isinstance(entries, list) else entries.get(name, 0)


def form(name, plain):
    if plain not in KINDS or name.startswith("INSTRUMENTED_"):
        return "ANY"
    return next((form for part, form in FORMS if part in name), "ANY")


def table():
    assert not opcode.hasjabs, "absolute jumps are not supported"
    lines = [
        f"/* Opcodes of CPython 3.{MINOR}. Generated by tools/gen_bytecode.py; do not edit.",
        " *",
        " * Columns: opcode, kind of call, what it can call, flow, cache units; stack effect:"
        " constant,",
        " * per argument, per lowest bit of it, form, difference when it jumps. Constant data.",
        " */",
        '#include "cpython/bytecode_table.h"',
        "",
        "/* clang-format off */",
        f"const pyr_opcode pyr_bytecode_table_3{MINOR}[256] = {{",
    ]
    for number, (name, plain) in sorted(opcodes().items()):
        kind = KINDS.get(plain, "NONE" if plain in PURE else "OTHER")
        base, per_arg, per_bit, effect_form, difference = fit(plain)
        lines.append(f"    PYR_ROW({number}, {kind}, {form(name, plain)}, {flow(plain)}, "
                     f"{caches(plain)}, {base}, {per_arg}, {per_bit}, {effect_form}, "
                     f"{difference}) /* {name} */")
    return "\n".join(lines + ["};", "/* clang-format on */", ""])


def main(arguments):
    if arguments == ["--stdout"]:
        sys.stdout.write(table())
        return 0
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(root, "src", "cpython", f"bytecode_3{MINOR}.c")
    if arguments == ["--check"]:
        with open(path, encoding="utf-8") as file:
            if file.read() == table():
                return 0
        print(f"gen_bytecode: {path} is not what this interpreter gives: run it without --check")
        return 1
    if arguments:
        print(__doc__)
        return 2
    with open(path, "w", encoding="utf-8") as file:
        file.write(table())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
