"""The official client of RocketMQ 5 for Python: four simple and four push consumers of a topic, which run until they
are killed.

Usage: grpc_members.py ENDPOINT TOPIC GROUP FAILING; prints a JSON line for each delivery.
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
    MessageListener,
    PushConsumer,
    SimpleConsumer,
)

MEMBERS = 4
endpoint, topic, group, failing_text = sys.argv[1:]
failing = int(failing_text)
configuration = ClientConfiguration(endpoint, Credentials(), request_timeout=20)
lock = threading.Lock()
failed: set[str] = set()


def show(**values: object) -> None:
    with lock:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()


def fails(body: str) -> bool:
    """True for the first delivery of each message whose number is a multiple of FAILING."""
    with lock:
        is_failure = failing > 0 and int(body.rsplit("-", 1)[1]) % failing == 0 and body not in failed
        if is_failure:
            failed.add(body)
    return is_failure


def simple() -> None:
    consumer = SimpleConsumer(
        configuration, f"{group}-simple", {topic: FilterExpression("*")}, await_duration=5
    )
    consumer.startup()
    show(ready=True)
    while True:
        try:
            lent = consumer.receive(32, 15) or []
        except Exception:
            time.sleep(0.2)
            continue
        for one in lent:
            show(by="simple", body=one.body.decode(), failed=False)
            try:
                consumer.ack(one)
            except Exception:
                time.sleep(0.05)


class Listener(MessageListener):  # type: ignore[misc]
    def consume(self, one: Any) -> Any:
        body = one.body.decode()
        is_failure = fails(body)
        show(by="push", body=body, failed=is_failure)
        return ConsumeResult.FAILURE if is_failure else ConsumeResult.SUCCESS


def push() -> None:
    consumer = PushConsumer(configuration, f"{group}-push", Listener(), {topic: FilterExpression("*")})
    consumer.startup()
    show(ready=True)
    threading.Event().wait()  # it is still in use


for _ in range(MEMBERS):
    for function in (push,) if failing else (simple, push):
        threading.Thread(target=function).start()
threading.Event().wait()  # consumers run tasks only before the end of the main thread
