"""Driver of our Producer, PullConsumer and PushConsumer, called like those of foreign clients in
`tests/foreign/clients`.

`python -m benchmarks.our_client send|soon|consume|push NAMESRV TOPIC GROUP COUNT PREFIX MODE [IN_FLIGHT]
[BODY_BYTES]`
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from rmqcli.client import (
    ConsumeContext,
    ConsumeResult,
    Credentials,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    SendResult,
)
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue

ACCOUNT = Credentials("benchmark", "secret-of-benchmark")


async def send(
    namesrv: str, topic: str, group: str, count: int, prefix: str, in_flight: int, size: int, *, signed: bool
) -> None:
    padding = "x" * size
    numbers = iter(range(count))
    account = ACCOUNT if signed else None
    async with Producer(group, namesrv=namesrv, send_timeout=30, credentials=account) as producer:

        async def lane() -> None:
            for n in numbers:
                body = f"{prefix}-{n}{padding}".encode()
                await producer.send(Message.of(topic, body, tags=f"tag{n % 3}", keys=[f"{prefix}-key-{n}"]))

        started, used = time.perf_counter(), time.process_time()
        async with trio.open_nursery() as nursery:
            for _ in range(in_flight):
                nursery.start_soon(lane)
        took = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
        print(json.dumps({"done": count, **took}))


async def soon(
    namesrv: str, topic: str, group: str, count: int, prefix: str, in_flight: int, size: int
) -> None:
    """Send the messages of `send` by `send_soon`, with a callback."""
    padding = "x" * size
    results: list[SendResult | Exception] = []
    done = trio.Event()

    def note(result: SendResult | Exception) -> None:
        results.append(result)
        if len(results) == count:
            done.set()

    async with Producer(group, namesrv=namesrv, send_timeout=30, in_flight=in_flight) as producer:
        started, used = time.perf_counter(), time.process_time()
        for n in range(count):
            body = f"{prefix}-{n}{padding}".encode()
            message = Message.of(topic, body, tags=f"tag{n % 3}", keys=[f"{prefix}-key-{n}"])
            await producer.send_soon(message, note)
        await done.wait()
        took = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    print(json.dumps({"done": sum(isinstance(result, SendResult) for result in results), **took}))


async def consume(
    namesrv: str, topic: str, group: str, count: int, prefix: str, in_flight: int, size: int
) -> None:
    seen: set[str] = set()
    async with PullConsumer(group, namesrv=namesrv) as consumer, trio.open_nursery() as nursery:

        async def read(queue: MessageQueue) -> None:
            offset = 0
            while len(seen) < count:
                result = await consumer.pull(queue, offset, suspend=5.0)
                offset = result.next_begin_offset
                if result.status is PullStatus.FOUND:
                    seen.update(message.body.decode() for message in result.messages)
            nursery.cancel_scope.cancel()

        queues = await consumer.message_queues(topic)
        print(json.dumps({"ready": True}), flush=True)
        started, used = time.perf_counter(), time.process_time()
        for queue in queues:
            nursery.start_soon(read, queue)
    took = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    print(json.dumps({"done": len(seen), **took}))


async def push(
    namesrv: str, topic: str, group: str, count: int, prefix: str, in_flight: int, size: int, *, quiet: bool
) -> None:
    """Consumes and only records messages; unless `quiet`, prints the arrival of each in epoch ms."""
    seen: set[bytes] = set()
    begun = 0.0
    done = trio.Event()

    async def handle(messages: list[MessageExt], _: ConsumeContext) -> ConsumeResult:
        nonlocal begun
        begun = begun or time.perf_counter()
        for message in messages:
            seen.add(message.body)
            if not quiet:
                print(json.dumps({"body": message.body.decode(), "at": time.time() * 1000}), flush=True)
        if len(seen) >= count:
            done.set()
        return ConsumeResult.SUCCESS

    async with PushConsumer(group, {topic: "*"}, handle, namesrv=namesrv):
        print(json.dumps({"ready": True}), flush=True)
        await done.wait()
        seconds = time.perf_counter() - begun
    print(json.dumps({"done": len(seen), "seconds": seconds}))


def main() -> None:
    verb, namesrv, topic, group, count, prefix, mode, *rest = sys.argv[1:]
    in_flight, size = (int(text) for text in [*rest, "1", "0"][:2]) if len(rest) != 1 else (int(rest[0]), 0)
    actions: dict[str, Callable[..., Awaitable[None]]] = {
        "send": partial(send, signed=mode == "signed"),
        "soon": soon,
        "consume": consume,
        "push": partial(push, quiet=mode == "quiet"),
    }
    trio.run(partial(actions[verb], namesrv, topic, group, int(count), prefix, in_flight, size))


if __name__ == "__main__":
    main()
