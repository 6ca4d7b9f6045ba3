"""Clients for asyncio whose loop ends without asyncio.run, which would have closed them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rmqcli.broker import Cluster
from rmqcli.client.sync import PullConsumer
from rmqcli.testing import lag
from tests.client.hosts import silent_broker
from tests.support import PATIENCE

OPENING = """
import asyncio, logging, sys, uvloop
from rmqcli.client import ConsumeFromWhere, ConsumeResult, Message, PushSettings
from rmqcli.client.aio import Producer, PushConsumer, guest
logging.basicConfig(format="%(message)s")
name, topic, namesrv = sys.argv[1:]
loop = asyncio.new_event_loop() if name == "asyncio" else uvloop.new_event_loop()
"""
SAID = "an event loop ended before its clients were closed: they are closed now"


def ended(program: str, *arguments: str) -> tuple[str, str]:
    command = [sys.executable, "-c", OPENING + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def stored(namesrv: str, topic: str) -> int:
    with PullConsumer(namesrv=namesrv) as consumer:
        return sum(len(consumer.pull(queue, 0).messages) for queue in consumer.message_queues(topic))


SENDS = """
async def main():
    producer = await Producer("G_left", namesrv=namesrv).open()
    return [await producer.send_soon(Message.of(topic, str(number))) for number in range(20)]
futures = loop.run_until_complete(main())
"""


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
@pytest.mark.parametrize("then", ["loop.close()", "", "loop.stop()"])
def test_an_exit_sends_what_was_begun(name: str, then: str, rmq_cluster_session: Cluster) -> None:
    topic = f"Left_{name}_{['loop.close()', '', 'loop.stop()'].index(then)}"
    _, errors = ended(SENDS + then, name, topic, rmq_cluster_session.namesrv)
    assert errors.splitlines()[0] == SAID
    assert stored(rmq_cluster_session.namesrv, topic) == 20


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_the_next_loop_of_the_thread_closes_them(name: str, rmq_cluster_session: Cluster) -> None:
    program = """
loop.close()
async def again():
    async with Producer("G_next", namesrv=namesrv) as producer:
        print({future.result().status.name for future in futures})
        print((await producer.send(Message.of(topic, "next"))).status.name)
asyncio.run(again())
print(len(guest._guests))
"""
    topic = f"Next_{name}"
    output, errors = ended(SENDS + program, name, topic, rmq_cluster_session.namesrv)
    assert output.splitlines() == ["{'SEND_OK'}", "SEND_OK", "0"]
    assert errors.splitlines()[0] == SAID
    assert stored(rmq_cluster_session.namesrv, topic) == 21


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_a_consumer_commits_what_its_listener_has_done_and_nothing_else(
    name: str, rmq_cluster_session: Cluster
) -> None:
    program = """
async def main():
    done = asyncio.Event()
    async def listen(messages, context):
        if int(messages[0].body) >= 2:
            done.set()
            await asyncio.sleep(3600)
        return ConsumeResult.SUCCESS
    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer("G_" + topic, {topic: "*"}, listen, settings=settings, namesrv=namesrv)
    async with Producer("G_fill", namesrv=namesrv) as producer:
        (queue, *_) = await producer.message_queues(topic)
        for number in range(4):
            await producer.send(Message.of(topic, str(number)), queue=queue)
        await consumer.open()
        await done.wait()
        await asyncio.sleep(0.1)
    return consumer
consumer = loop.run_until_complete(main())
loop.close()
"""
    topic = f"Consumed_{name}"
    _, errors = ended(program, name, topic, rmq_cluster_session.namesrv)
    assert errors.splitlines()[0] == SAID
    assert lag(rmq_cluster_session, f"G_{topic}", topic) == 2


def test_an_exit_does_not_wait_for_a_silent_broker() -> None:
    program = """
guest.EXIT = 0.5
async def main():
    producer = await Producer("G_left", namesrv=namesrv, timeout=600, send_timeout=600).open()
    await producer.send_soon(Message.of(topic, "x"))
    return producer
producer = loop.run_until_complete(main())
loop.close()
"""
    with silent_broker() as address:
        _, errors = ended(program, "asyncio", "Silent", address)
    assert errors.splitlines()[0] == SAID
