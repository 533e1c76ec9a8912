"""The same for asyncio: a Starlette service beside BENCH_TASKS tasks that wait in a deep await."""

import asyncio
import os

import profilers

profilers.start()

from starlette.applications import Starlette  # noqa: E402
from starlette.responses import JSONResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402

waiting: list[asyncio.Task] = []


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


async def wait(depth=8):
    if depth:
        return await wait(depth - 1)
    await asyncio.sleep(3600)


async def index(request):
    while len(waiting) < int(os.environ.get("BENCH_TASKS", "0")):
        waiting.append(asyncio.create_task(wait()))
    await asyncio.sleep(0.001)
    value = fib(12)
    items = [{"id": i, "name": str(i) * 3} for i in range(50)]
    return JSONResponse({"items": items, "value": value})


app = Starlette(routes=[Route("/", index)])
