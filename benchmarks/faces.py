"""The clients for threads and for asyncio, compared with the trio client in one run. Bodies of 1 KB.

Each case runs in a process of its own, in turns, against one broker in another process; the median counts.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import trio
import uvloop

from benchmarks.harness import ROOT, Measured, cluster
from rmqcli.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeResult,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    PushSettings,
    aio,
    sync,
)

COUNT = 10_000
TASKS = 50
ROUNDS = 5
BODY = b"x" * 1024
SETTINGS = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, batch_size=32)
Figures = tuple[float, float]
"""Seconds by the clock, seconds of CPU."""
Listener = Callable[[list[MessageExt], ConsumeContext], Awaitable[ConsumeResult]]


def message(number: int) -> Message:
    return Message.of("Faces", BODY, tags="tag", keys=[str(number)])


class Watch:
    """Measures from its creation on."""

    def __init__(self) -> None:
        self._began, self._used = time.perf_counter(), time.process_time()

    def figures(self) -> Figures:
        return time.perf_counter() - self._began, time.process_time() - self._used


def soon_trio(namesrv: str) -> Figures:
    async def main() -> Figures:
        outcomes: list[object] = []
        async with Producer("G_faces", namesrv=namesrv, send_timeout=60) as producer:
            await producer.send(message(0))
            watch = Watch()
            for number in range(COUNT):
                await producer.send_soon(message(number), outcomes.append)
            while len(outcomes) < COUNT:  # noqa: ASYNC110  cheaper than a callback that counts
                await trio.sleep(0.001)
            return watch.figures()

    return trio.run(main)


def soon_sync(namesrv: str) -> Figures:
    with sync.Producer("G_faces", namesrv=namesrv, send_timeout=60) as producer:
        producer.send(message(0))
        watch = Watch()
        futures = [producer.send_soon(message(number)) for number in range(COUNT)]
        for future in futures:
            future.result()
        return watch.figures()


def tasks_trio(namesrv: str) -> Figures:
    async def main() -> Figures:
        async with Producer("G_faces", namesrv=namesrv, send_timeout=60) as producer:
            await producer.send(message(0))
            numbers = iter(range(COUNT))

            async def lane() -> None:
                for number in numbers:
                    await producer.send(message(number))

            watch = Watch()
            async with trio.open_nursery() as nursery:
                for _ in range(TASKS):
                    nursery.start_soon(lane)
            return watch.figures()

    return trio.run(main)


async def _tasks_asyncio(namesrv: str) -> Figures:
    async with aio.Producer("G_faces", namesrv=namesrv, send_timeout=60) as producer:
        await producer.send(message(0))
        numbers = iter(range(COUNT))

        async def lane() -> None:
            for number in numbers:
                await producer.send(message(number))

        watch = Watch()
        async with asyncio.TaskGroup() as group:
            for _ in range(TASKS):
                group.create_task(lane())
        return watch.figures()


def tasks_asyncio(namesrv: str) -> Figures:
    return asyncio.run(_tasks_asyncio(namesrv))


def tasks_uvloop(namesrv: str) -> Figures:
    return uvloop.run(_tasks_asyncio(namesrv))


class Counter:
    """Counts messages; `set` is called when all have come."""

    def __init__(self, done: Callable[[], object]) -> None:
        self._left, self._done = COUNT, done
        self._lock = threading.Lock()

    def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        with self._lock:
            self._left -= len(messages)
            if self._left <= 0:
                self._done()
        return ConsumeResult.SUCCESS

    async def on_loop(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        return self(messages, context)


def _group() -> str:
    return f"G_{time.time_ns()}"


def push_trio(namesrv: str) -> Figures:
    async def main() -> Figures:
        done = trio.Event()
        listen = Counter(done.set).on_loop
        watch = Watch()
        async with PushConsumer(_group(), {"Faces": "*"}, listen, settings=SETTINGS, namesrv=namesrv):
            await done.wait()
            return watch.figures()

    return trio.run(main)


def push_asyncio(namesrv: str) -> Figures:
    async def main() -> Figures:
        done = asyncio.Event()
        listen = Counter(done.set).on_loop
        watch = Watch()
        async with aio.PushConsumer(_group(), {"Faces": "*"}, listen, settings=SETTINGS, namesrv=namesrv):
            await done.wait()
            return watch.figures()

    return asyncio.run(main())


def push_trio_threads(namesrv: str) -> Figures:
    async def main() -> Figures:
        done, token = trio.Event(), trio.lowlevel.current_trio_token()
        listen = Counter(lambda: token.run_sync_soon(done.set))
        watch = Watch()
        async with PushConsumer(_group(), {"Faces": "*"}, listen, settings=SETTINGS, namesrv=namesrv):
            await done.wait()
            return watch.figures()

    return trio.run(main)


def push_sync(namesrv: str) -> Figures:
    done = threading.Event()
    watch = Watch()
    with sync.PushConsumer(_group(), {"Faces": "*"}, Counter(done.set), settings=SETTINGS, namesrv=namesrv):
        done.wait()
        return watch.figures()


CASES = {
    case.__name__: case
    for case in (
        soon_trio,
        soon_sync,
        tasks_trio,
        tasks_asyncio,
        tasks_uvloop,
        push_trio,
        push_asyncio,
        push_trio_threads,
        push_sync,
    )
}


def faces() -> Iterator[Measured]:
    """Measure futures of threads, tasks of asyncio and consumers: ratios to the trio client."""
    found: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        for _ in range(ROUNDS):
            for name in CASES:
                command = [sys.executable, "-m", "benchmarks.faces", name, up["namesrv"]]
                done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
                found.setdefault(name, []).append(json.loads(done.stdout))
    rate = {name: COUNT / statistics.median(one[0] for one in all_of) for name, all_of in found.items()}
    cpu = {name: statistics.median(one[1] for one in all_of) / COUNT * 1e6 for name, all_of in found.items()}
    yield _rate("send_soon, threads", rate, "soon_sync", "soon_trio", "at least 0.9")
    for name in ("tasks_asyncio", "tasks_uvloop"):
        yield _cpu(
            f"client's CPU, {TASKS} {name.replace('_', ' of ')}", cpu, name, "tasks_trio", "at most 1.4"
        )
    yield _cpu("client's CPU, push, asyncio", cpu, "push_asyncio", "push_trio", "at most 1.4")
    yield _rate("push, threads", rate, "push_sync", "push_trio_threads", "at least 0.9")


def _rate(title: str, rate: dict[str, float], name: str, base: str, target: str) -> Measured:
    return Measured(title, rate[name], "msg/s", rate[name] / rate[base], "trio", target)


def _cpu(title: str, cpu: dict[str, float], name: str, base: str, target: str) -> Measured:
    return Measured(title, cpu[name], "µs", cpu[name] / cpu[base], "trio", target)


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](sys.argv[2])))
