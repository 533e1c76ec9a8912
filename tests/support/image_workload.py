"""What the threads of a recorded image do; compiled by record_image.py as /srv/service.py."""

import asyncio
import threading
import time


def sleep(ready):
    ready()
    time.sleep(3600)


def sleeper(ready):
    one(ready)


def one(ready):
    (lambda: two(ready))()


def two(ready):
    sleep(ready)


def waiter(ready):
    ready()
    threading.Event().wait()


def locked(ready):
    lock = threading.Lock()
    lock.acquire()
    ready()
    lock.acquire()


def inner_generator(ready):
    yield 1
    sleep(ready)
    yield 2


def outer_generator(ready):
    yield from inner_generator(ready)


def generators(ready):
    for _ in outer_generator(ready):
        pass


class Service:
    async def innermost(self, ready):
        sleep(ready)

    async def middle(self, ready):
        await self.innermost(ready)



def coroutines(ready):
    asyncio.run(Service().middle(ready))


def deep(ready, depth=400):
    if depth:
        deep(ready, depth - 1)
    else:
        sleep(ready)


def boundary(ready):
    sorted([1], key=lambda number: list(map(lambda _: sleep(ready), [number])))


def handling(ready):
    try:
        {}["key"]
    except KeyError:
        try:
            raise Problem("é")
        except Problem:
            generators(ready)


class Problem(Exception):
    pass


class Callable:
    def __call__(self, ready):
        self.attribute  # noqa: B018 (its __getattr__ is the point)

    def __getattr__(self, name):
        sleep(self.__dict__["ready"])


def special(ready):
    callable = Callable()
    callable.__dict__["ready"] = ready
    callable(ready)


def evaluated(ready):
    eval("[sleep(ready) for _ in range(1)]", {"sleep": sleep, "ready": ready})


def executed(ready):
    exec("def generated():\n    sleep(ready)\n\n\ngenerated()", {"sleep": sleep, "ready": ready})


def ñandú(ready):
    exec(compile("def 模块():\n sleep(ready)\n模块()", "/srv/模块.py", "exec"),
         {"sleep": sleep, "ready": ready})


def wide(ready):
    names = {f"local_{i}": i for i in range(600)}
    lines = "".join(f"    {name} = {i}\n" for name, i in names.items())
    source = "def wide_frame(ready):\n" + lines
    namespace = {"sleep": sleep}
    exec(compile(source + "    sleep(ready)\n", "/srv/wide.py", "exec"), namespace)
    namespace["wide_frame"](ready)


def no_lines(ready):
    code = two.__code__.replace(co_linetable=b"")
    type(two)(code, globals())(ready)
