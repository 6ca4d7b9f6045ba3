"""The pops of a push consumer, and the handling of the messages (Java `DefaultMQPushConsumerImpl.popMessage`,
`ConsumeMessagePopConcurrentlyService`).

One pop waits at the broker for each assigned queue while fewer than `pop_messages` of it are unacknowledged.
Acknowledgements for one broker are sent one request after another, each with those gathered in the meantime.
A message that was not consumed stays invisible for the time of its delay level. The invisible time of a
message is renewed until its listener returns, up to `consume_timeout`.

A pop is not cancelled: its reply may already have messages, which the group would not get before their
invisible time is over. It ends in the instance, and the messages of a released queue are returned.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from itertools import islice

import trio
from msgspec.structs import replace

from rmqcli.client.errors import UNREACHED, BrokerRefused, ClientError, NotFound, NotSupported
from rmqcli.client.functions import for_each
from rmqcli.client.group.settings import Subscription
from rmqcli.client.pop.lent import BROKER_CLOCK, INIT_MODES, MAX_MESSAGES, acknowledge, change, lender, pop
from rmqcli.client.pull.next_pull import BUSY, FAILED, FLOW_CONTROL, PAUSED
from rmqcli.client.push.pop_queue import Lane, Loan, PopQueue
from rmqcli.client.push.process_queue import Held
from rmqcli.client.push.send_back import DEAD_LETTER, FIRST_RETRY_LEVEL, SendBack
from rmqcli.client.push.state import GroupState, log
from rmqcli.codec.bodies.pop import BatchAck, BatchAckMessageRequestBody
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.pop import PopMessageRequestHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.pop import BATCH_ACK_MESSAGE
from rmqcli.codec.store.delay_levels import DEFAULT_LEVELS

MOST_ACKED = 512  # in one request
ACK_AGAIN = 1.0  # seconds until acknowledgements that did not reach a broker are sent again
RENEWALS = 6  # searches per invisible time for messages whose time is half over
LAST_POPS = 1.0  # seconds that pops get to end after the consumer has left its group
FULL = 3.0  # seconds after POLLING_FULL
WIDEST = 1 << 16  # offsets that one set of bits covers


class Pops:
    """The pops of one consumer; `pop_queue` is the task of one queue, `run` that of all others."""

    def __init__(
        self,
        state: GroupState,
        back: SendBack,
        submit: Callable[[Held, list[MessageExt]], None],
        open_lane: Callable[[Lane], None],
    ) -> None:
        self._state = state
        self._back = back
        self._submit = submit
        self._open_lane = open_lane
        self._limit = state.settings.reconsume_limit(state.orderly)
        self._invisible = state.settings.invisible_duration
        self._queues: set[PopQueue] = set()
        self._acks: dict[str, dict[Loan, None]] = {}
        self._failing: dict[Loan, None] = {}
        self._sending: set[str] = set()
        self._single: set[str] = set()  # brokers without BATCH_ACK_MESSAGE
        self._asking: set[trio.Event] = set()
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                await self._renew_for_ever()
        finally:
            self._nursery = None

    def hold(self, queue: MessageQueue) -> PopQueue:
        """Return a newly assigned queue."""
        held = PopQueue(queue, self._state.instance.now_ms(), self._settled)
        self._queues.add(held)
        return held

    async def release(self, held: PopQueue) -> None:
        """Stop popping a queue, and return the messages on which no listener has started."""
        held.drop()
        # Nobody else returns them: when the end of the consumer cancels this, they are already forgotten.
        with trio.move_on_after(LAST_POPS, shield=True):
            await self._return_all(held.unbegun())

    async def finish(self) -> None:
        """Send the remaining acknowledgements, and return messages that were not consumed, at the end of the
        consumer.
        """
        with trio.move_on_after(LAST_POPS):
            for ended in list(self._asking):
                await ended.wait()
        left = [loan for held in self._queues for loan in held.loans]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._return_all, left)
            nursery.start_soon(for_each, self._later, list(self._failing))
            nursery.start_soon(for_each, self._send_acks, list(self._acks))

    # --- pops

    async def pop_queue(self, held: PopQueue) -> None:
        with held.scope:
            while not held.dropped:
                pause = self._hold_back(held) or await self._pop(held)
                if pause:
                    await trio.sleep(pause)

    def _hold_back(self, held: PopQueue) -> float:
        """Return the seconds to wait before a pop; 0 to pop now."""
        state = self._state
        held.last_pull_ms = state.instance.now_ms()
        if state.paused or state.stopping:
            return PAUSED
        settings = state.settings
        is_full = held.count >= settings.pop_messages or held.size > settings.queue_bytes
        return FLOW_CONTROL if is_full else 0.0

    async def _pop(self, held: PopQueue) -> float:
        """Pop once. Return the seconds until the next pop."""
        subscription = self._state.subscriptions.get(held.queue.topic)
        if subscription is None:
            return FAILED
        pauses: list[float] = []
        ended = trio.Event()
        self._asking.add(ended)

        async def ask() -> None:
            try:
                pauses.append(await self._ask(held, subscription))
            finally:
                ended.set()
                self._asking.discard(ended)

        self._state.instance.nursery.start_soon(ask, name=f"pop of {held.queue}")
        await ended.wait()
        return pauses[0] if pauses else FAILED

    async def _ask(self, held: PopQueue, subscription: Subscription) -> float:
        state, queue, begun = self._state, held.queue, trio.current_time()
        try:
            address = await lender(state.instance, queue.topic, queue.broker_name)
            header = self._header(held, subscription)
            timeout = state.settings.pull_timeout
            lent = await pop(state.instance, address, queue, header, timeout=timeout)
        except ClientError as error:
            return self._failed(held, error)
        state.troubles.pop(queue, None)
        if lent is None:
            held.rest = 0
            return held.idle.after(begun, 0)
        held.rest = lent.header.rest_num
        counts = state.statistics[queue.topic]
        counts.pull_time.add((trio.current_time() - begun) * 1000)
        counts.pulled.add(len(lent.messages))
        # Before the check below, because `leave` returns only what was added.
        held.add(lent.messages, trio.current_time() + lent.header.invisible_time / 1000)
        if held.dropped or state.stopping or state.subscriptions.get(queue.topic) is not subscription:
            await self._return_all(held.leave(lent.messages))
            return 0.0
        state.instance.namespace.unwrap_messages(lent.messages)
        tags = subscription.tags
        wanted = [one for one in lent.messages if not tags or one.tags in tags]
        if len(wanted) < len(lent.messages):  # a broker compares hash codes
            held.remove([one for one in lent.messages if one.tags not in tags])
        self._distribute(held, wanted)
        return held.idle.after(begun, 0, found=True)

    def _header(self, held: PopQueue, subscription: Subscription) -> PopMessageRequestHeader:
        settings, (expression, expression_type) = self._state.settings, subscription.selector
        room = max(1, settings.pop_messages - held.count)
        return PopMessageRequestHeader(
            consumer_group=self._state.group,
            topic=held.queue.topic,
            queue_id=held.queue.queue_id,
            max_msg_nums=min(settings.pull_batch_size, MAX_MESSAGES, room),
            invisible_time=round(self._invisible * 1000),
            poll_time=round(settings.long_poll * 1000),
            born_time=BROKER_CLOCK,
            init_mode=INIT_MODES[settings.consume_from],
            exp_type=expression_type,
            exp=expression or "*",
            order=self._state.orderly,
        )

    def _failed(self, held: PopQueue, error: ClientError) -> float:
        """Return the seconds until the next pop."""
        if isinstance(error, BrokerRefused) and error.code == ResponseCode.FLOW_CONTROL:
            return BUSY
        if isinstance(error, UNREACHED):
            self._state.instance.routes.doubt(held.queue.topic)
        self._state.instance.outages.failed("popping from", held.queue, error)
        self._state.troubles[held.queue] = error
        is_full = isinstance(error, BrokerRefused) and error.code == ResponseCode.POLLING_FULL
        return FULL if is_full else FAILED

    def _distribute(self, held: PopQueue, messages: Iterable[MessageExt]) -> None:
        by_queue: dict[int, list[MessageExt]] = {}
        for message in messages:
            by_queue.setdefault(message.queue_id, []).append(message)
        for queue_id, some in by_queue.items():
            if self._state.orderly:
                lane, is_new = held.lane(queue_id)
                lane.put(some)
                if is_new:
                    self._open_lane(lane)
            else:
                self._submit(held, some)

    # --- handling of the messages

    def _settled(self, loan: Loan) -> None:
        if loan.level is None:
            self._consumed(loan)
            return
        self._failing[loan] = None
        if self._nursery is not None:
            self._nursery.start_soon(self._later, loan)

    def _consumed(self, loan: Loan) -> None:
        name = loan.handle.broker_name
        self._acks.setdefault(name, {})[loan] = None
        if self._nursery is not None and name not in self._sending:
            self._nursery.start_soon(self._send_acks, name)

    async def _send_acks(self, name: str) -> None:
        """Send the acknowledgements that wait for a broker, until there are no more."""
        if name in self._sending:
            return
        self._sending.add(name)
        waiting = self._acks[name]
        try:
            while waiting:
                batch = list(islice(waiting, MOST_ACKED))
                if await self._acked(name, batch):
                    for loan in batch:
                        del waiting[loan]
                else:
                    await trio.sleep(ACK_AGAIN)
                    for loan in batch:
                        if loan.is_over:
                            del waiting[loan]
        finally:
            self._sending.discard(name)

    async def _acked(self, name: str, batch: list[Loan]) -> bool:
        """Return False if acknowledgements must be sent again."""
        for loan in batch:
            if loan.busy is not None:
                await loan.busy.wait()
        instance, topic = self._state.instance, batch[0].topic
        try:
            address = await lender(instance, topic, name)
            if len(batch) > 1 and name not in self._single:
                body = BatchAckMessageRequestBody(broker_name=name, acks=self._batch(batch))
                await instance.ask(address, BATCH_ACK_MESSAGE, None, body)
                return True
        except NotSupported:
            self._single.add(name)
        except ClientError as error:
            return self._ack_failed(topic, batch[0], error)
        outcomes: list[bool] = []

        async def ack(loan: Loan) -> None:
            try:
                await acknowledge(instance, address, self._state.group, loan.topic, loan.handle)
            except ClientError as error:
                outcomes.append(self._ack_failed(loan.topic, loan, error))

        await for_each(ack, batch)
        return all(outcomes)

    def _ack_failed(self, topic: str, loan: Loan, error: ClientError) -> bool:
        """Return False if it can be sent again."""
        queue = MessageQueue(topic, loan.handle.broker_name, loan.handle.queue_id)
        self._state.instance.outages.failed("acknowledging messages of", queue, error)
        if isinstance(error, UNREACHED):
            self._state.instance.routes.doubt(topic)
            return False
        return not (isinstance(error, NotFound) and error.concluded)

    def _batch(self, loans: Iterable[Loan]) -> list[BatchAck]:
        """Return loans by the common part of their handles, with the offsets as bits after the first one."""
        bits: dict[BatchAck, int] = {}
        for loan in loans:
            handle = loan.handle
            start = handle.start_offset
            if not 0 <= handle.offset - start < WIDEST:
                start = handle.offset
            shared = BatchAck(
                consumer_group=self._state.group,
                topic=loan.topic,
                retry=handle.retry,
                start_offset=start,
                queue_id=handle.queue_id,
                revive_queue_id=handle.revive_queue,
                pop_time=handle.pop_time,
                invisible_time=handle.invisible_time,
            )
            bits[shared] = bits.get(shared, 0) | 1 << (handle.offset - start)
        return [replace(one, bit_set=base64.b64encode(_bytes_of(bit)).decode()) for one, bit in bits.items()]

    async def _later(self, loan: Loan) -> None:
        """Let a message be redelivered after the time of its delay level, or make a dead letter of it."""
        message, level = loan.messages[0], loan.level or 0
        if loan.busy is not None:
            await loan.busy.wait()
        if level == DEAD_LETTER or message.reconsume_times >= self._limit:
            if await self._back.to_dead_letters(message):
                self._consumed(loan)
                self._failing.pop(loan, None)
                return
            level = 0
        delay = DEFAULT_LEVELS.delay_ms(level or FIRST_RETRY_LEVEL + message.reconsume_times)
        try:
            await change(self._state.instance, self._state.group, loan.topic, loan.handle, delay)
        except ClientError as error:
            log.info("%s comes again after its invisible time: %s", message.msg_id, error)
        self._failing.pop(loan, None)

    async def _return_all(self, loans: Iterable[Loan]) -> None:
        """Let messages that no listener has consumed be lent again now."""

        async def give(loan: Loan) -> None:
            if loan.busy is not None:
                await loan.busy.wait()
            try:
                state = self._state
                await change(state.instance, state.group, loan.topic, loan.handle, 0, unused=True)
            except ClientError as error:
                log.info("%s comes again after its invisible time: %s", loan.messages[0].msg_id, error)

        await for_each(give, loans)

    # --- renewals

    async def _renew_for_ever(self) -> None:
        while True:
            await trio.sleep(self._invisible / RENEWALS)
            self._queues = {held for held in self._queues if held.count or not held.dropped}
            now = trio.current_time()
            due = [
                loan
                for held in self._queues
                for loan in held.loans
                if loan.until - now < self._invisible / 2 and not self._is_too_long(loan, now)
            ]
            for loan in due:  # at once, because an acknowledgement needs the handle that is valid then
                loan.busy = trio.Event()
            await for_each(self._renew, due)

    def _is_too_long(self, loan: Loan, now: float) -> bool:
        if loan.begun is None or now - loan.begun < self._state.settings.consume_timeout:
            return False
        if not loan.is_abandoned:
            loan.is_abandoned = True
            log.warning("%s is consumed for too long; it is lent again", loan.messages[0].msg_id)
        return True

    async def _renew(self, loan: Loan) -> None:
        state, now = self._state, trio.current_time()
        try:
            milliseconds = round(self._invisible * 1000)
            handle = await change(state.instance, state.group, loan.topic, loan.handle, milliseconds)
            loan.renew(handle, now + self._invisible)
        except ClientError as error:  # the next round tries again
            log.info("the invisible time of %s is not renewed: %s", loan.messages[0].msg_id, error)
        finally:
            if loan.busy is not None:
                loan.busy.set()
                loan.busy = None


def _bytes_of(bits: int) -> bytes:
    """Return a Java BitSet."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")
