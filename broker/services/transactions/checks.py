"""Checks of pending half messages with their producers (Java `TransactionalMessageCheckService`,
`TransactionalMessageServiceImpl`).

Every `transactionCheckInterval` (60 s), a scan reads the half queue from the saved offset on, for at most 60
s. A half message

* that an op message has ended is skipped;
* that was checked `transactionCheckMax` (15) times, or was born more than `fileReservedTime` hours ago, moves
  to TRANS_CHECK_MAX_TIME_TOPIC;
* that was stored since the scan began, or is younger than `transactionTimeOut` (6 s), ends the scan;
* that is younger than its property CHECK_IMMUNITY_TIME_IN_SECONDS is postponed: copied to the end of the
  queue;
* otherwise is copied to the end of the queue and checked with its producer.

Every copy, even a postponed one, counts as an attempt (TRANSACTION_CHECK_TIMES), as in Java. Ages are
relative to the client's born timestamp; a message from the future is checked immediately. Op messages that
the store refused earlier are written first. A failed write ends the scan, and the next scan retries it. A
message that has become too large to copy is not checked, but its producer can still end it. The position is a
consumer offset, saved at the end of the scan when the copies are on the disk; a kill before that leads to a
second copy and a second check. Op messages are read to the end before a half message counts as pending.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.net.handling import command_of
from rmqcli.broker.services.put import real_place
from rmqcli.broker.services.transactions.half import HALF_QUEUE, half_again, record_ends, retire
from rmqcli.broker.services.transactions.op_queue import OpQueue
from rmqcli.broker.store.values import AppendResult, PutStatus
from rmqcli.codec.errors import CodecError, LocalProtocolError
from rmqcli.codec.headers.transactions import CheckTransactionStateRequestHeader
from rmqcli.codec.ids import pack_host_text
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import TRANSACTION_GROUP, SystemTopic
from rmqcli.codec.operations.messages import CHECK_TRANSACTION_STATE
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.records.encoding import encode_record
from rmqcli.codec.records.reading import decode_record

_log = logging.getLogger(__name__)


# CHECK_TRANSACTION_STATE (39): requests the state of a transaction from a producer (Java
# `AbstractTransactionalMessageCheckListener`).
#
# The request is one-way, to one connection of the producer group, which responds with an END_TRANSACTION. The
# body is the half message as it would be in its real queue, with the offsets of its newest copy.


def request_check(
    broker: BrokerContext, half: MessageExt, properties: dict[str, str], copy: AppendResult
) -> None:
    """Send the request if a producer is connected that may end the transaction. `copy` is the newest copy of
    the half message."""
    group = properties.get(PropertyName.PGROUP, "")
    access, place = broker.access, real_place(properties)
    may_send = None if access is None or place is None else partial(access.may_send, topic=place[0])
    producer = broker.producers.available(group, may_send)
    if producer is None:
        _log.info("no producer of group %s is connected that may end a transaction", group)
        return
    try:
        record = _record(half, properties, copy)
    except LocalProtocolError as error:
        _log.error("the half message at %d cannot be sent to its producer: %s", copy.physical_offset, error)
        return
    key = properties.get(PropertyName.UNIQ_KEY)
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=copy.queue_offset,
        commit_log_offset=copy.physical_offset,
        msg_id=key,
        transaction_id=key,
        offset_msg_id=broker.offset_msg_id(copy.physical_offset),
    )
    producer.channel.oneway(command_of(CHECK_TRANSACTION_STATE, header, record))


def _record(half: MessageExt, properties: dict[str, str], copy: AppendResult) -> bytes:
    place = real_place(properties)
    if place is None:
        raise LocalProtocolError("it names no topic")
    topic, queue_id = place
    return encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        flag=half.flag,
        queue_offset=copy.queue_offset,
        physical_offset=copy.physical_offset,
        sys_flag=half.sys_flag,
        born_timestamp=half.born_timestamp,
        born_host=pack_host_text(half.born_host),
        store_timestamp=half.store_timestamp,
        store_host=pack_host_text(half.store_host),
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half.prepared_transaction_offset,
        body=half.body,
        properties=encode_properties(properties),
    )


SCAN_LIMIT_MS = 60_000
SHORTEST_INTERVAL_SECONDS = 0.1
STEPS_PER_TURN = 8
"""Half messages, or batches of op messages, that are handled before other tasks run."""
MS_PER_HOUR = 3_600_000
MAX_DIGITS = 18
_TOPIC = SystemTopic.TRANS_HALF
_NO_NUMBER = -1
P = PropertyName


async def check_transactions(broker: BrokerContext) -> None:
    """Scan the half queue at each interval until cancelled."""
    while True:
        interval = broker.config.transaction_check_interval / 1000
        await broker.sleep(max(interval, SHORTEST_INTERVAL_SECONDS))
        if not broker.is_slave:
            await check_half_messages(broker)


async def check_half_messages(broker: BrokerContext) -> None:
    """Scan the half queue once."""
    await _Scan(broker).run()


class _Scan:
    def __init__(self, broker: BrokerContext) -> None:
        low, high = (
            broker.store.search.min_offset(_TOPIC, HALF_QUEUE),
            broker.store.search.max_offset(_TOPIC, HALF_QUEUE),
        )
        self._broker = broker
        self._started = broker.now_ms()
        self._wrote = False
        # Retention may have removed what the saved offset refers to, and a power cut the end of the queue.
        self._position = min(max(_progress(broker, _TOPIC), low), high)
        self._ops = OpQueue(broker.store, _progress(broker, SystemTopic.TRANS_OP_HALF), self._position)

    async def run(self) -> None:
        try:
            steps = 0
            while self._has_time() and await self._broker.store.when_ready(self._step):
                steps += 1
                if steps % STEPS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
            if self._wrote:
                await self._broker.store.make_durable()
        finally:
            _save(self._broker, _TOPIC, self._position)
            _save(self._broker, SystemTopic.TRANS_OP_HALF, self._ops.progress)
        if self._wrote:
            await self._broker.files.save_offsets()

    def _has_time(self) -> bool:
        return self._broker.now_ms() - self._started <= SCAN_LIMIT_MS

    def _step(self) -> bool:
        """Handle one half message, or write or read a few op messages. Return False at the end of the
        scan."""
        if ends := self._broker.unrecorded_ends:
            are_taken = record_ends(self._broker)
            if not are_taken:
                _log.warning("the ends of half messages that the store refuses: %d", len(ends))
            return are_taken
        if self._ops.take(self._position):
            return self._done()
        if self._ops.read():
            return True
        self._position = max(self._position, self._broker.store.search.min_offset(_TOPIC, HALF_QUEUE))
        entries = self._broker.store.search.consume_queue_entries(_TOPIC, HALF_QUEUE, self._position, 1)
        if not entries:
            return False
        half = self._read(*entries[0][:2])
        return self._done() if half is None else self._judge(half)

    def _read(self, position: int, size: int) -> MessageExt | None:
        record = self._broker.store.search.record_at_size(position, size)
        try:
            return decode_record(record) if record is not None else None
        except CodecError as error:
            _log.error("the half message at %d cannot be read: %s", position, error)
            return None

    def _judge(self, half: MessageExt) -> bool:
        config = self._broker.config
        age = self._broker.now_ms() - half.born_timestamp
        if _times(half) >= config.transaction_check_max:
            return self._give_up(half, half.properties)
        counted = {**half.properties, P.TRANSACTION_CHECK_TIMES: str(max(_times(half), 0) + 1)}
        if age > config.file_reserved_time * MS_PER_HOUR:
            return self._give_up(half, counted)
        if half.store_timestamp >= self._started:
            return False
        immunity = _immunity(half, config.transaction_time_out)
        if immunity is None:
            return not 0 <= age < config.transaction_time_out and self._check(half, counted)
        # A postponed copy, whose original was ended after it had been copied.
        if _number(half, P.TRAN_PREPARED_QUEUE_OFFSET) in self._ops.late:
            return self._done()
        return self._postpone(half, counted) if age < immunity else self._check(half, counted)

    def _give_up(self, half: MessageExt, properties: dict[str, str]) -> bool:
        try:
            result = retire(self._broker, half, properties)
        except LocalProtocolError:
            result = retire(self._broker, half, half.properties)
        if result.status is PutStatus.MESSAGE_ILLEGAL:
            _log.error("the half message at %d is too large to be stored again", half.commit_log_offset)
            return self._done()
        self._wrote = True
        return result.status is PutStatus.PUT_OK and self._done()

    def _check(self, half: MessageExt, properties: dict[str, str]) -> bool:
        copy = self._copy(half, properties)
        if copy is None:
            return self._give_up(half, half.properties)
        if not self._moved(copy):
            return False
        request_check(self._broker, half, properties, copy)
        return True

    def _postpone(self, half: MessageExt, properties: dict[str, str]) -> bool:
        # A copy of a copy still names the first message, which is the one that the producer's op message
        # names.
        properties.setdefault(P.TRAN_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
        properties[P.WAIT] = "false"
        copy = self._copy(half, properties)
        return self._give_up(half, half.properties) if copy is None else self._moved(copy)

    def _copy(self, half: MessageExt, properties: dict[str, str]) -> AppendResult | None:
        """Copy a half message. Return None if its properties or the message have become too large."""
        with suppress(LocalProtocolError):
            copy = half_again(self._broker, half, properties)
            if copy.status is not PutStatus.MESSAGE_ILLEGAL:
                return copy
        _log.warning("the half message at %d cannot be checked", half.commit_log_offset)
        return None

    def _moved(self, copy: AppendResult) -> bool:
        if copy.status is not PutStatus.PUT_OK:
            return False
        self._wrote = True
        self._broker.half_copies.moved(self._position, copy.queue_offset)
        self._position += 1
        return True

    def _done(self) -> bool:
        self._broker.half_copies.forget(self._position)
        self._position += 1
        return True


def _progress(broker: BrokerContext, topic: str) -> int:
    return broker.offsets.query(TRANSACTION_GROUP, topic, HALF_QUEUE)


def _save(broker: BrokerContext, topic: str, offset: int) -> None:
    if offset != max(0, _progress(broker, topic)):
        broker.offsets.commit(TRANSACTION_GROUP, topic, HALF_QUEUE, offset)


def _number(half: MessageExt, name: str) -> int:
    """Return a numeric property; -1 if it is missing or not a number."""
    text = half.properties.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else _NO_NUMBER


def _times(half: MessageExt) -> int:
    return _number(half, P.TRANSACTION_CHECK_TIMES)


def _immunity(half: MessageExt, timeout_ms: int) -> int | None:
    """Return the milliseconds before the first check; None without the property, the timeout if it is
    invalid."""
    if P.CHECK_IMMUNITY_TIME_IN_SECONDS not in half.properties:
        return None
    seconds = _number(half, P.CHECK_IMMUNITY_TIME_IN_SECONDS)
    return timeout_ms if seconds < 0 else seconds * 1000
