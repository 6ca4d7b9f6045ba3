"""Background sends of trace records, in batches (Java `AsyncTraceDispatcher`).

Up to BATCH records, or those of LINGER seconds, go into one message of at most MAX_BODY bytes. Its KEYS are
the ids and keys of the traced messages, by which `rmq trace` and Java's tools find it. While MAX_WAITING
records are waiting, further ones are dropped and counted, as are those whose send failed. With `waits`, which
Java lacks, `room` waits for space instead, as long as sends of traces succeed.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import trio

from rmqcli.client.errors import ClientError, InvalidRequest
from rmqcli.client.instance import ClientInstance
from rmqcli.client.trace.records import TraceRecord, encode_record
from rmqcli.client.wire.detached import in_task
from rmqcli.codec.message import Message, SystemTopic
from rmqcli.codec.property_names import PropertyName

if TYPE_CHECKING:
    from rmqcli.client.produce.producer import Producer

TRACE_TOPIC = SystemTopic.TRACE
# BATCH, LINGER, MAX_BODY, MAX_WAITING and SEND_TIMEOUT are those of Java.
BATCH = 100
LINGER = 0.1
MAX_BODY = 128_000
MAX_KEYS = 30_000  # bytes; all properties of a message together are limited to 32,767
MAX_WAITING = 2048
SEND_TIMEOUT = 5.0
CLOSE_TIMEOUT = 1.0
PATIENT_CLOSE_TIMEOUT = 10.0

log = logging.getLogger("rmqcli.client.trace")
_counter = itertools.count()


def trace_topic(trace: bool | str) -> str | None:
    """Return the topic named by an option `trace`, or None if there is no trace."""
    return TRACE_TOPIC if trace is True else trace or None


class TraceDispatcher:
    """The dispatcher of one group, between `start` and `close`; `kind` is PRODUCE or CONSUME.

    `producer_type` is Producer, which creates a dispatcher itself.

    `dropped` counts the records that were not written; `trouble` is the last error of a send.
    """

    def __init__(
        self,
        instance: ClientInstance,
        producer_type: type[Producer],
        group: str,
        kind: str,
        topic: str,
        *,
        waits: bool = False,
    ) -> None:
        self.topic = topic
        self._is_patient = self._waits = waits
        self.dropped = 0
        self.trouble: ClientError | None = None
        self._instance = instance
        self._producer_type = producer_type
        self._group = f"_INNER_TRACE_PRODUCER-{group}-{kind}-{next(_counter)}"
        self._waiting: deque[TraceRecord] = deque()
        self._sending = 0
        self._arrival = trio.Event()
        self._full = trio.Event()
        self._idle = trio.Event()
        self._room = trio.Event()
        self._scope: trio.CancelScope | None = None

    def put(self, records: Iterable[TraceRecord]) -> None:
        """Queue records. Never waits."""
        for record in records:
            if len(self._waiting) >= MAX_WAITING and not self._is_patient:
                self.dropped += 1
            else:
                self._waiting.append(record)
        if self._waiting:
            self._arrival.set()
        if len(self._waiting) >= BATCH:
            self._full.set()

    async def room(self) -> float:
        """Wait for space, if `waits` is set and sends of traces succeed. Return the seconds waited."""
        begun = trio.current_time()
        while self._is_patient and len(self._waiting) >= MAX_WAITING:
            room = self._room  # which may be set before a task has taken over
            await in_task()
            await room.wait()
        return trio.current_time() - begun

    async def start(self) -> None:
        try:
            self._producer = self._inner_producer(self._group)
        except InvalidRequest:  # only the length can be invalid, because the group name was checked before
            self._producer = self._inner_producer(self._group[:100])
        await self._producer.__aenter__()
        self._scope = self._instance.start(self._run, "trace")

    def _inner_producer(self, group: str) -> Producer:
        core = self._instance
        return self._producer_type(group, instance=core, namespace=core.address_namespace, hook=None)

    async def close(self) -> None:
        """Send the remaining records, even when cancelled.

        This takes at most CLOSE_TIMEOUT seconds, or PATIENT_CLOSE_TIMEOUT with `waits`.
        """
        if self._scope is None:
            return
        with trio.move_on_after(PATIENT_CLOSE_TIMEOUT if self._is_patient else CLOSE_TIMEOUT, shield=True):
            while self._waiting or not self._idle.is_set():
                # In every round, because `_run` replaces both events.
                self._full.set()
                self._arrival.set()
                await self._idle.wait()
        self._scope.cancel()
        self.dropped += len(self._waiting) + self._sending
        await self._producer.__aexit__(None, None, None)

    async def _run(self) -> None:
        while True:
            if not self._waiting:
                self._idle.set()
                self._arrival = trio.Event()
                await self._arrival.wait()
                self._idle = trio.Event()
            with trio.move_on_after(LINGER):
                await self._full.wait()
            await self._send_some()

    async def _send_some(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        self._sending = len(batch)
        if len(self._waiting) < BATCH:
            self._full = trio.Event()
        for message, count in pack(batch, self.topic):
            try:
                await self._producer.send(message, timeout=SEND_TIMEOUT)
                self._is_patient = self._waits
            except ClientError as error:
                self.dropped += count
                self.trouble = error
                # Without a broker that takes traces, waiting for space would stop the application.
                self._is_patient = False
                log.info("%d trace records were not sent: %s", count, error)
            self._sending -= count
        self._room.set()
        self._room = trio.Event()


class Traceable:
    """Mixin of clients that may write traces, through `_trace`."""

    _trace: TraceDispatcher | None

    @property
    def traces_dropped(self) -> int:
        """The number of trace records that were not written: too many at once, or no broker accepted them."""
        return 0 if self._trace is None else self._trace.dropped

    @property
    def trace_trouble(self) -> ClientError | None:
        """The error of the last trace record that could not be sent, if any."""
        return None if self._trace is None else self._trace.trouble


class _Parcel:
    """A trace message that is being assembled."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._keys: dict[str, None] = {}
        self._size = 0
        self._key_size = 0

    def add(self, data: bytes, keys: Iterable[str]) -> bool:
        """Add a record. Return False if there is no space for it."""
        fresh = [key for key in keys if key not in self._keys]
        size, key_size = self._size + len(data), self._key_size + _size_of(fresh)
        if self._parts and (size > MAX_BODY or key_size > MAX_KEYS):
            return False
        self._parts.append(data)
        self._keys.update(dict.fromkeys(fresh))
        self._size, self._key_size = size, key_size
        return True

    def message(self, topic: str) -> tuple[Message, int]:
        properties = {PropertyName.KEYS: " ".join(self._keys)}
        return Message(topic=topic, body=b"".join(self._parts), properties=properties), len(self._parts)


def pack(records: Iterable[TraceRecord], topic: str) -> Iterator[tuple[Message, int]]:
    """Yield trace messages within the limits, each with the number of its records."""
    parcel: _Parcel | None = None
    for record in records:
        data, keys = encode_record(record).encode("utf-8", "replace"), _keys(record)
        if parcel is not None and parcel.add(data, keys):
            continue
        if parcel is not None:
            yield parcel.message(topic)
        parcel = _Parcel()
        parcel.add(data, keys)
    if parcel is not None:
        yield parcel.message(topic)


def _keys(record: TraceRecord) -> list[str]:
    """Return the id and the keys, or only the id if the keys are too long for a message."""
    keys = [key for key in (record.keys or "").split(" ") if key]
    return [record.msg_id, *keys] if _size_of(keys) <= MAX_KEYS // 2 else [record.msg_id]


def _size_of(keys: Iterable[str]) -> int:
    return sum(len(key.encode("utf-8", "replace")) + 1 for key in keys)
