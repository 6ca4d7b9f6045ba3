"""Stores of a group's offsets: at the brokers (clustering) or in a file of this client (broadcasting).

An offset is that of the next message to consume. `update` changes it in memory, `persist` sends or writes it.
Java classes: `RemoteBrokerOffsetStore` and `LocalFileOffsetStore`; the file format is Java's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import trio

from rmqcli.client.errors import ClientError, InvalidRequest
from rmqcli.client.functions import for_each_broker
from rmqcli.client.group.queue_life import is_younger
from rmqcli.client.group.settings import ConsumerSettings
from rmqcli.client.instance import ClientInstance
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.bodies.offsets import OffsetSerializeWrapper
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.errors import CodecError
from rmqcli.codec.fastjson_writer import FASTJSON
from rmqcli.codec.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqcli.codec.message import RETRY_PREFIX
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.offsets import (
    GET_EARLIEST_MSG_STORETIME,
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    UPDATE_CONSUMER_OFFSET,
)
from rmqcli.files import replace_file


class OffsetCalls:
    """Mixin of consumers and Admin. Reads go to a slave if the master of a queue cannot be reached."""

    instance: ClientInstance
    group: str = ""
    zero_if_absent: bool | None = None
    """The reply to request from brokers that know no offset: 0 if possible (None, as in Java), or never 0
    (False).
    """

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest offset that can still be read."""
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = GetMinOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
        return (await self.instance.ask_queue(queue, GET_MIN_OFFSET, header)).header.offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
        return (await self.instance.ask_queue(queue, GET_MAX_OFFSET, header)).header.offset

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (epoch) or later.

        Brokers of 4.9 may return any of several messages of that millisecond, or a neighbour; if there is no
        such message, they return the last one.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = SearchOffsetRequestHeader(topic=topic, queue_id=number, timestamp=timestamp_ms, bname=name)
        return (await self.instance.ask_queue(queue, SEARCH_OFFSET_BY_TIMESTAMP, header)).header.offset

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Return the time (epoch ms) at which the oldest message of the queue was stored.

        -1 if the queue is empty.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = GetEarliestMsgStoretimeRequestHeader(topic=topic, queue_id=number, bname=name)
        return (await self.instance.ask_queue(queue, GET_EARLIEST_MSG_STORETIME, header)).header.timestamp

    async def committed(self, queue: MessageQueue, group: str | None = None) -> int | None:
        """Return the next offset that the group will consume; None if it never committed one.

        A broker of 4.9 returns 0 for an unknown group while the queue is still entirely in memory; others do
        so unless `zero_if_absent` is False.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self.instance.namespace.wrap(group or self.group),
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=self.zero_if_absent,
            bname=queue.broker_name,
        )
        answer = await self.instance.find_in_queue(queue, QUERY_CONSUMER_OFFSET, header)
        return None if answer is None else answer.header.offset

    async def commit(
        self, queue: MessageQueue, offset: int, group: str | None = None, *, oneway: bool = False
    ) -> None:
        """Set the next offset of the group. Running consumers of the group overwrite it within seconds."""
        queue = self.instance.namespace.wrap_queue(queue)
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self.instance.namespace.wrap(group or self.group),
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        address = (await self.instance.broker_addresses(queue))[0]
        if oneway:
            await self.instance.send_oneway(address, UPDATE_CONSUMER_OFFSET, header)
        else:
            await self.instance.ask(address, UPDATE_CONSUMER_OFFSET, header, None)


HALF_AN_HOUR = 30 * 60 * 1000  # ms


class OffsetFileDamaged(ClientError):
    """Raised if neither offsets.json nor its .bak can be read."""


class OffsetFileUnwritable(ClientError):
    """Raised if offsets.json could not be written. The offsets are written the next time."""


class OffsetStore(Protocol):
    async def load(self) -> None:
        """Prepare the store, once, before the first read."""

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None: ...

    def memory(self, queue: MessageQueue) -> int | None: ...

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the stored offset, or None. Raises ClientError if it cannot be read now."""

    async def persist(
        self, queues: Iterable[MessageQueue], *, sure: bool = False, all_of: bool = True
    ) -> None:
        """Save the offsets of these queues.

        `sure` waits for the replies, `all_of` includes unchanged offsets.

        Raises OffsetFileUnwritable. Offsets that a broker did not accept are sent again the next time.
        """

    def remove(self, queue: MessageQueue) -> None: ...

    def table(self, topic: str) -> dict[MessageQueue, int]: ...


class _Memory:
    def __init__(self) -> None:
        self._table: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        if not increase_only or offset > self._table.get(queue, -1):
            self._table[queue] = offset

    def memory(self, queue: MessageQueue) -> int | None:
        return self._table.get(queue)

    def table(self, topic: str) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self._table.items() if queue.topic == topic}


class RemoteBrokerOffsetStore(_Memory, OffsetCalls):
    """Offsets at the broker of each queue."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        super().__init__()
        self.instance = instance
        self.group = group
        self._saved: dict[MessageQueue, int] = {}

    async def load(self) -> None:
        return

    async def read(self, queue: MessageQueue) -> int | None:
        offset = await self.committed(queue)
        if offset is not None:
            self.update(queue, offset, increase_only=False)
            self._saved[queue] = offset
        return offset

    async def persist(
        self, queues: Iterable[MessageQueue], *, sure: bool = False, all_of: bool = True
    ) -> None:
        known = [queue for queue in queues if queue in self._table]
        chosen = known if all_of else [q for q in known if self._saved.get(q) != self._table[q]]
        await for_each_broker(partial(self._send, sure=sure), chosen)

    def remove(self, queue: MessageQueue) -> None:
        self._table.pop(queue, None)
        self._saved.pop(queue, None)

    async def _send(self, queues: list[MessageQueue], *, sure: bool) -> None:
        # The queues are those of one broker: after the first error, the others are left for the next time.
        with contextlib.suppress(ClientError):
            for queue in queues:
                offset = self._table.get(queue)
                if offset is not None:
                    await self.commit(queue, offset, oneway=not sure)
                    # What was sent: the offset in the table may be higher by now.
                    self._saved[queue] = offset


def offsets_file(folder: Path | None, client_id: str, group: str) -> Path:
    """Return `~/.rocketmq_offsets/<client id>/<group>/offsets.json`, or that path below another folder.

    Raises InvalidRequest if this user has no home folder.
    """
    try:
        root = Path.home() / ".rocketmq_offsets" if folder is None else folder
    except RuntimeError as error:
        text = "a broadcasting consumer stores its offsets in the home folder, which this user does not have: set HOME"
        raise InvalidRequest(text) from error
    return root / client_id / group / "offsets.json"


class LocalFileOffsetStore(_Memory):
    """Offsets in a file, with the previous version next to it as .bak.

    Other consumers of the group on this machine share the file. Each changes only the offsets of queues that
    it consumed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._written: dict[MessageQueue, int] = {}

    async def load(self) -> None:
        """Read the file. Raises OffsetFileDamaged if neither it nor its .bak can be read."""
        self._table.update(await trio.to_thread.run_sync(self._load))
        self._written = dict(self._table)

    async def read(self, queue: MessageQueue) -> int | None:
        return self._table.get(queue)

    async def persist(
        self, queues: Iterable[MessageQueue], *, sure: bool = False, all_of: bool = True
    ) -> None:
        moved = dict(self._table.items() - self._written.items())
        if not moved:
            return
        try:
            # Copies, because the table changes while the thread writes.
            await trio.to_thread.run_sync(self._save, dict(self._table), moved)
        except OSError as error:
            raise OffsetFileUnwritable(f"the offsets cannot be written to {self.path}: {error}") from error
        self._written.update(moved)

    def remove(self, queue: MessageQueue) -> None:
        """Do nothing, because a broadcasting client will consume all its queues again."""

    def _load(self) -> dict[MessageQueue, int]:
        damaged = False
        for path in (self.path, self._backup):
            try:
                table = decode_table(OffsetSerializeWrapper, path.read_bytes())
                if table is not None:
                    return table.offset_table
                damaged = True
            except FileNotFoundError:
                continue
            except (OSError, CodecError):
                damaged = True
        if damaged:
            raise OffsetFileDamaged(f"the offsets in {self.path} and its .bak cannot be read")
        return {}

    def _save(self, known: Mapping[MessageQueue, int], moved: Mapping[MessageQueue, int]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone():
            # Read again under the lock: another consumer may have written since `load`.
            table = dict(known)
            # A file that was damaged since `load` is replaced by the offsets that this consumer knows.
            with contextlib.suppress(OffsetFileDamaged):
                table.update(self._load())
            self._replace({**table, **moved})

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            import fcntl
        except ImportError:  # Windows: of consumers that write at the same time, the last one wins
            yield
            return
        # The folder is locked, because the file itself is replaced by each write.
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _replace(self, table: Mapping[MessageQueue, int]) -> None:
        body = OffsetSerializeWrapper(offset_table=dict(sorted(table.items())))
        replace_file(self.path, encode_body(body, dialect=FASTJSON, pretty=True), backup=self._backup)


def offset_store(instance: ClientInstance, group: str, settings: ConsumerSettings) -> OffsetStore:
    """Return the offset store of a consumer: a file if broadcasting, otherwise the brokers."""
    if settings.broadcasting:
        return LocalFileOffsetStore(offsets_file(settings.offsets_folder, instance.lasting_id, group))
    return RemoteBrokerOffsetStore(instance, group)


class StartOffsets(OffsetCalls):
    """The offsets at which a group starts to consume its queues (Java `computePullFromWhereWithException`).

    CONSUME_FROM_TIMESTAMP without a timestamp means half an hour before `started_ms`.
    """

    def __init__(
        self, instance: ClientInstance, group: str, offsets: OffsetStore, settings: ConsumerSettings
    ) -> None:
        self.instance = instance
        self.group = group
        self._offsets = offsets
        self._settings = settings
        self._absent: dict[str, int] = {}
        self.started_ms = instance.now_ms()

    def note_absent(self, topic: str) -> None:
        """Note that a topic does not exist. The queues it gets later are read from their first message."""
        self._absent.setdefault(topic, self.instance.now_ms())

    async def find(self, queue: MessageQueue) -> int:
        """Return the stored offset, or the one that the settings select.

        Raises ClientError if no broker replies.
        """
        stored = await self._offsets.read(queue)
        return await self._first(queue) if stored is None else stored

    async def _first(self, queue: MessageQueue) -> int:
        """Return the offset that the settings select.

        On a retry topic, LAST means 0 and TIMESTAMP means the end.
        """
        is_retry, where = queue.topic.startswith(RETRY_PREFIX), self._settings.consume_from
        if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        if await self._is_awaited(queue):
            return 0
        if where is not ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            return 0 if is_retry else await self.max_offset(queue)
        if is_retry:
            return await self.max_offset(queue)
        given = self._settings.from_timestamp
        return await self.search_offset(queue, self.started_ms - HALF_AN_HOUR if given is None else given)

    async def _is_awaited(self, queue: MessageQueue) -> bool:
        """Return True if all messages of the queue were stored after its topic was found to be absent."""
        since = self._absent.get(queue.topic)
        if since is None or await self.min_offset(queue) > 0:
            return False
        return is_younger(await self.earliest_store_time(queue), since)
