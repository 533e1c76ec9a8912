"""Prints golden cases for tests/unit/test_bytecode.c: real code objects and where they call.

    python3.13 tests/support/golden_bytecode.py > tests/golden/bytecode/313.txt

One case a line: name, minor, co_stacksize, bytecode, exception table ("-" if empty), and the calls
as unit:kind:depth:oparg, as the analysis of check_bytecode.py by means of dis alone sees them.
"""

import sys

import check_bytecode


def nested(a, b, c):
    return max(1, len(sorted(list(a), key=b, reverse=c)), *a, **b)


def chained(text):
    for line in text.split("\n"):
        yield line.strip().replace("a", "b").join(str(x) for x in line if x)


def guarded(lock, path):
    with lock, open(path) as file:
        try:
            return [int(part) for part in file.read().split()]
        except (ValueError, KeyError) as error:
            print(error, end="")
            raise RuntimeError(path) from error
        finally:
            file.close()


async def awaited(queue, lock):
    async with lock:
        async for item in queue:
            print(await item.get(timeout=1), [x async for x in item.all()])
    try:
        await queue.join()
    except* OSError as group:
        print(group)


def matched(value):
    match value:
        case {"a": [first, *rest]}:
            return print(first, f"{rest!r:>{len(rest)}}")
        case int(n) | float(n) if bool(n):
            return divmod(n, 2)[0:abs(n)]
    return lambda x=str(value): x


def long_jumps(x):
    while x:
        print(x, "y" if str(x) else int(x))
        x = [x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3),
             x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3),
             x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3),
             x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3), x.a(1).b(2).c(3)]


many_arguments = eval("lambda f, x: f(" + ", ".join(["x()"] * 300) + ")")


def main():
    for function in (nested, chained, guarded, awaited, matched, long_jumps, many_arguments):
        code = function.__code__
        calls = check_bytecode.simulate(code)
        print(code.co_name.strip("<>"), sys.version_info[1], code.co_stacksize, code.co_code.hex(),
              code.co_exceptiontable.hex() or "-",
              ",".join(f"{unit}:{kind}:{depth}:{arg}"
                       for unit, (kind, depth, arg) in sorted(calls.items())))


if __name__ == "__main__":
    main()
