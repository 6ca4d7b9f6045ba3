"""The official client of RocketMQ 5 for Python; runs in a virtual environment of its own.

Usage: grpc_python.py VERB ENDPOINT TOPIC GROUP COUNT [SECONDS]; the verbs are the functions below. Each prints JSON
lines about what it sent or received, and {"done": true} at the end.
"""

import json
import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

verb, endpoint, topic, group, count_text, *rest = sys.argv[1:]
count = int(count_text)
seconds = float(rest[0]) if rest else 0.0
account = rest[1:3] if len(rest) > 2 else []
configuration = ClientConfiguration(endpoint, Credentials(*account), request_timeout=20)
lock = threading.Lock()


def show(**values: object) -> None:
    with lock:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()


def message(number: int, body: str) -> Any:
    one = Message()
    one.topic = topic
    one.body = f"{body}-{number}".encode()
    one.tag = f"tag{number % 3}"
    one.keys = f"key-{number}"
    one.add_property("number", str(number))
    return one


def received(one: Any, **more: object) -> None:
    show(
        body=one.body.decode(),
        tag=one.tag,
        keys=list(one.keys),
        properties=dict(one.properties),
        group=one.message_group,
        attempt=one.delivery_attempt,
        id=one.message_id,
        corrupted=one.corrupted,
        **more,
    )


def producer(checker: Any = None) -> Any:
    found = (
        Producer(configuration, (topic,), checker=checker) if checker else Producer(configuration, (topic,))
    )
    found.startup()
    return found


def send() -> None:
    """Messages of each kind but transactions; delayed ones only with SECONDS."""
    sender = producer()
    for number in range(count):
        receipt = sender.send(message(number, "normal"))
        show(sent=f"normal-{number}", id=receipt.message_id, offset=receipt.offset)
    for number in range(count):
        one = message(number, "fifo")
        one.message_group = f"group-{number % 4}"
        show(sent=f"fifo-{number}", id=sender.send(one).message_id)
    for name in ("delayed", "recalled") if seconds else ():
        one = message(0, name)
        one.delivery_timestamp = int(time.time() + seconds)
        receipt = sender.send(one)
        if name == "recalled":
            sender.recall_message(topic, receipt.recall_handle)
        show(sent=f"{name}-0", id=receipt.message_id)
    future = sender.send_async(message(count, "async"))
    show(sent=f"async-{count}", id=future.result(20).message_id)
    sender.shutdown()


def ordered() -> None:
    """COUNT messages of each of four message groups, numbered from SECONDS on."""
    sender = producer()
    for number in range(int(seconds), int(seconds) + count):
        for name in ("g0", "g1", "g2", "g3"):
            one = message(number, name)
            one.message_group = name
            sender.send(one)
    sender.shutdown()


def timed() -> None:
    """Normal messages, and how long they took."""
    sender = producer()
    body = "x" * 1000
    sender.send(message(0, body))
    begun = time.perf_counter()
    for number in range(count):
        sender.send(message(number, body))
    show(seconds=time.perf_counter() - begun)
    sender.shutdown()


def drained() -> None:
    """Receives and acknowledges COUNT messages that it sends before, and how long that took."""
    sender = producer()
    for number in range(count):
        sender.send(message(number, "x" * 1000))
    sender.shutdown()
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression("*")}, await_duration=5)
    consumer.startup()
    left, begun = count, time.perf_counter()
    while left > 0:
        for one in consumer.receive(16, 15) or []:
            consumer.ack(one)
            left -= 1
    show(seconds=time.perf_counter() - begun)
    consumer.shutdown()


class Checker(TransactionChecker):  # type: ignore[misc]
    def check(self, one: Any) -> Any:
        show(checked=one.body.decode(), tag=one.tag, id=one.message_id)
        return TransactionResolution.COMMIT


def transactions() -> None:
    """One that commits, one that rolls back, and one that the server must ask about."""
    sender = producer(Checker())
    for number, name in enumerate(("commit", "rollback", "orphan")):
        transaction = sender.begin_transaction()
        sender.send(message(number, name), transaction)
        if name == "commit":
            transaction.commit()
        elif name == "rollback":
            transaction.rollback()
        show(sent=f"{name}-{number}")
    time.sleep(seconds)
    sender.shutdown()


def simple() -> None:
    """Receives and acknowledges COUNT messages."""
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression("*")}, await_duration=5)
    consumer.startup()
    show(ready=True)
    left = count
    deadline = time.monotonic() + 60
    while left and time.monotonic() < deadline:
        for one in consumer.receive(16, 15) or []:
            received(one)
            consumer.ack(one)
            left -= 1
    consumer.shutdown()


class Listener(MessageListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.enough = threading.Event()
        self.left = count
        self.failed: set[str] = set()

    def consume(self, one: Any) -> Any:
        fails = seconds and one.message_id not in self.failed
        received(one, failed=bool(fails))
        if fails:
            self.failed.add(one.message_id)
            return ConsumeResult.FAILURE
        with lock:
            self.left -= 1
            if not self.left:
                self.enough.set()
        return ConsumeResult.SUCCESS


def push() -> None:
    """Receives COUNT messages by a listener; with SECONDS, each fails once."""
    listener = Listener()
    consumer = PushConsumer(configuration, group, listener, {topic: FilterExpression("*")})
    consumer.startup()
    show(ready=True)
    listener.enough.wait(60)
    time.sleep(1)
    consumer.shutdown()


globals()[verb]()
show(done=True)
