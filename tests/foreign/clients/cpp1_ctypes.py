"""The C++ client 1.x through the PyPI distribution `rocketmq` 0.4.4 (ctypes); runs in a virtual environment of its own.

Usage: cpp1_ctypes.py send|consume NAMESRV TOPIC GROUP COUNT PREFIX [fail-once|quiet|orderly] [IN_FLIGHT] [BODY_BYTES]: as ali_ons.js.
"""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer
from rocketmq.ffi import _CConsumeStatus, dll

verb, namesrv, topic, group, count_text, prefix, *rest = sys.argv[1:]
count = int(count_text)
mode = rest[0] if rest else ""
padding = "x" * int(rest[2]) if len(rest) > 2 else ""
member = {"member": os.environ["MEMBER"]} if "MEMBER" in os.environ else {}
account = [os.environ[name] for name in ("ACCESS_KEY", "SECRET_KEY") if name in os.environ]
lock = threading.Lock()


def show(**values: object) -> None:
    with lock:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()


def text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def send() -> None:
    producer = Producer(group, timeout=60000)
    producer.set_namesrv_addr(namesrv)
    if account:
        producer.set_session_credentials(*account, "LOCAL")
    producer.start()
    started = time.perf_counter()
    for n in range(count):
        message = Message(topic)
        message.set_keys(f"{prefix}-key-{n}")
        message.set_tags(f"tag{n % 3}")
        message.set_body(f"{prefix}-{n}{padding}")
        result = producer.send_sync(message)
        if mode != "quiet":
            show(n=n, status=result.status.name, msgId=result.msg_id, queueOffset=result.offset)
    show(done=count, seconds=time.perf_counter() - started)
    producer.shutdown()


def consume() -> None:
    consumer = PushConsumer(group, orderly=mode == "orderly")
    consumer.set_namesrv_addr(namesrv)
    if account:
        consumer.set_session_credentials(*account, "LOCAL")
    consumer.set_thread_count(3)
    failed: set[str] = set()
    seen: set[str] = set()
    ended = threading.Event()
    started: list[float] = []

    def on_message(_consumer: object, handle: Any) -> int:
        if not started:
            started.append(time.perf_counter())
        body = text(dll.GetMessageBody(handle))
        with lock:
            first = mode == "fail-once" and body not in failed
            failed.add(body)
        if first:
            return int(_CConsumeStatus.RECONSUME_LATER.value)
        with lock:
            seen.add(body)
            all_seen = len(seen) == count
        if mode != "quiet":
            show(
                **member,
                body=body,
                tags=text(dll.GetMessageTags(handle)),
                keys=text(dll.GetMessageKeys(handle)),
                msgId=text(dll.GetMessageId(handle)),
                reconsumeTimes=dll.GetMessageReconsumeTimes(handle),
                queueId=dll.GetMessageQueueId(handle),
                at=time.time() * 1000,
            )
        if all_seen:
            show(done=count, seconds=time.perf_counter() - started[0])
            ended.set()
        return int(_CConsumeStatus.CONSUME_SUCCESS.value)

    # An event would wait for ever for its own lock, which the interrupted wait may hold.
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    dll.Subscribe(consumer._handle, topic.encode(), b"*")
    consumer._register_callback(on_message)
    consumer.start()
    show(ready=True)
    while not (stopped or ended.wait(0.1)):
        pass
    consumer.shutdown()


{"send": send, "consume": consume}[verb]()
sys.stdout.flush()
os._exit(0)  # the library's own threads outlive its shutdown
