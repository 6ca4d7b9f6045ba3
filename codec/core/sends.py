"""Plain sends: the records of requests that arrived together, and the frames of their replies.

A plain send needs no decision: it has one message without a transaction, a delay or a property that a broker
adds itself, is short enough, and is for a queue that `queue_of` knows. Nothing else decides which sends are
plain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i32, i64

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.record_writer import QueueRun, Run
from rmqcli.codec.core.replies import ReplyHead, offset_text
from rmqcli.codec.core.text import TextReader, joined_text

_TRANSACTION: Final[i64] = MessageSysFlag.TRANSACTION_MASK


class Sends:
    """Plain sends of one connection that a run stores, and the data for their replies.

    `queue_of` returns the messages that this run stores in the queue with a topic and queue id: the same
    object each time, or None if a send to the queue needs a decision. `own` are the properties that the
    broker adds, `most_body` and `most_text` the maximum bytes of body and properties. With `must_wait`, a
    message that does not wait to be stored is not plain.
    """

    def __init__(
        self,
        run: Run,
        queue_of: Callable[[str, int], QueueRun | None],
        own: bytes,
        born_host: bytes,
        most_body: i64,
        most_text: i64,
        must_wait: bool,
    ) -> None:
        self.run = run
        self.queues: list[QueueRun] = []
        self._queue_of = queue_of
        self._own = own
        self._born_host = born_host
        self._most_body: i64 = most_body
        self._most_text: i64 = most_text
        self._must_wait = must_wait
        self._reader = TextReader()
        self._known: dict[str, dict[int, QueueRun]] = {}
        self._kinds: list[int] = []
        self._opaques: list[int] = []
        self._offsets: list[int] = []
        self._queue_ids: list[int] = []
        self._queue_offsets: list[int] = []

    def take(self, request: Any, header: Any) -> bool:
        """Add the message of a send request with this header; return False if it is not plain."""
        # A flag marks a response or a one-way request, neither of which gets a reply.
        if request.flag or header.batch:
            return False
        return self.add(
            header.topic,
            header.queue_id,
            (header.properties or "").encode("utf-8", "replace"),
            request.body,
            header.born_timestamp,
            header.flag,
            header.sys_flag,
            header.reconsume_times,
            request.serialize_type,
            request.opaque,
        )

    def add(
        self,
        topic: str,
        queue_id: int,
        text: bytes,
        body: bytes,
        born_timestamp: i64,
        flag: i32 = 0,
        sys_flag: i64 = 0,
        reconsume_times: i32 = 0,
        kind: int = 0,
        opaque: int = 0,
    ) -> bool:
        """Add a message with a properties text; return False if it is not plain."""
        reader = self._reader
        if reader.read(text, 0, len(text)) or (self._must_wait and not reader.waits(text)):
            return False
        queue = self._find(topic, queue_id)
        stored = joined_text(reader.without_wait(text), self._own)
        if (
            queue is None
            or queue.is_full
            or sys_flag & _TRANSACTION
            or len(body) > self._most_body
            or len(stored) > self._most_text
            or not self.run.has_room(queue, self._born_host, len(body), len(stored))
        ):
            return False
        number: i64 = queue.queue_offset + len(queue.offsets)
        offset = self.run.add(
            queue,
            flag,
            sys_flag,
            born_timestamp,
            self._born_host,
            reconsume_times,
            0,
            body,
            stored,
            reader.code(text),  # the broker adds neither tags nor keys
            reader.hashes(text, queue.seed),
        )
        # The first message of this run in its queue.
        if number == queue.queue_offset:
            self.queues.append(queue)
        self._kinds.append(kind)
        self._opaques.append(opaque)
        self._queue_ids.append(queue.queue_id)
        self._queue_offsets.append(number)
        self._offsets.append(offset)
        return True

    def _find(self, topic: str, queue_id: int) -> QueueRun | None:
        # Kept for the whole run: `queue_of` is called once for each queue, not for each send.
        of_topic = self._known.get(topic)
        if of_topic is None:
            of_topic = self._known[topic] = {}
        queue = of_topic.get(queue_id)
        if queue is None:
            queue = self._queue_of(topic, queue_id)
            if queue is not None:
                of_topic[queue_id] = queue
        return queue

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._offsets)

    def replies(self, head: ReplyHead, id_prefix: bytes) -> bytes:
        """Return the frames of the replies, in the order of the requests. Each message id begins with
        `id_prefix`.
        """
        out = BytesWriter()
        for number, offset in enumerate(self._offsets):
            values = [
                id_prefix + offset_text(offset),
                str(self._queue_ids[number]).encode(),
                str(self._queue_offsets[number]).encode(),
            ]
            head.write(out, self._kinds[number] != 0, self._opaques[number], values, 0)
        return out.getvalue()

    def results(self) -> list[tuple[int, int, int, int, int]]:
        """Return header kind, opaque number, commit-log offset, queue id and queue offset of each request."""
        return list(
            zip(self._kinds, self._opaques, self._offsets, self._queue_ids, self._queue_offsets, strict=True)
        )
