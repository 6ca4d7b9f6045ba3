"""`SimpleConsumer`: messages that a broker lends for a limited time (Java `SimpleConsumer` of 5.x, over POP).

The topics of a consumer and their brokers are queried in turn. With one broker and one topic, the broker
holds the request until there are messages. With several, all are first queried concurrently whether they have
any, because that lends none: no message is lent to a request whose reply is no longer awaited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple, TypeVar, Unpack

import trio

from rmqcli.client.errors import (
    UNREACHED,
    ClientError,
    InvalidRequest,
    NotSupported,
    seconds_text,
)
from rmqcli.client.group.processor import ConsumerProcessor
from rmqcli.client.group.running_info import pull_info
from rmqcli.client.group.settings import (
    ConsumerSettings,
    MessageSelector,
    Subscription,
    subscription_of,
    subscriptions,
)
from rmqcli.client.identity import FORBIDDEN_CONSUMER, check_group_name
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions
from rmqcli.client.pop.lent import (
    ANY_QUEUE,
    BROKER_CLOCK,
    INIT_MODES,
    MAX_MESSAGES,
    acknowledge,
    change,
    lender,
    no_master,
    polling_full,
    pop,
)
from rmqcli.client.pull.next_pull import IDLE
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, ConsumeType, SubscriptionData
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.codec.codes import MASTER_ID
from rmqcli.codec.errors import HeaderError
from rmqcli.codec.headers.pop import (
    NotificationRequestHeader,
    PopMessageRequestHeader,
)
from rmqcli.codec.message import MessageExt, PropertyName
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.pop import (
    NOTIFICATION,
)
from rmqcli.codec.receipt_handle import ReceiptHandle

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

MIN_INVISIBLE, MAX_INVISIBLE = 10.0, 12 * 3600.0  # seconds, as in Java's proxy
MAX_AWAIT = 3600.0
_PAUSES = IDLE[:6]  # after each time that a broker reports messages, and then lends none


class _Source(NamedTuple):
    """A topic on a master."""

    queue: MessageQueue
    address: str
    subscription: Subscription


class SimpleConsumer(Client):
    """Receives messages, each for a limited time, and acknowledges them one by one. Requires brokers of 5.x
    or rmq.

    A message that is not acknowledged within its invisible duration is redelivered to any member of the
    group; `message.reconsume_times` counts the redeliveries. Members share the messages of each queue, so
    there may be more members than queues.

    `topics`: tags or a MessageSelector by topic. `await_duration`: the seconds that `receive` waits for
    messages. `consume_from`: where a new group begins. `orderly`: a queue lends no more messages until those
    already lent are acknowledged or their time is over.

    ```python
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    async with SimpleConsumer("packers", {"orders": "paid"}, consume_from=first) as consumer:
        for message in await consumer.receive(max_messages=16, invisible_duration=60):
            assert message.body == b"hello"
            await consumer.ack(message)
    ```
    """

    def __init__(
        self,
        group: str,
        topics: Mapping[str, str | MessageSelector],
        *,
        await_duration: float = 30.0,
        consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        orderly: bool = False,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(instance, options)
        _check("await_duration", await_duration, 0, MAX_AWAIT)
        if consume_from not in INIT_MODES:
            raise InvalidRequest("a simple consumer begins at the first or at the last offset, not at a time")
        core = self.instance
        self._namespace = core.namespace
        self.group: str = self._namespace.wrap(group)
        check_group_name(self.group, FORBIDDEN_CONSUMER)
        self._await = await_duration
        self._settings = ConsumerSettings(consume_from=consume_from)
        self._orderly = orderly
        wanted = {self._namespace.wrap(topic): selector for topic, selector in topics.items()}
        self._subscriptions = subscriptions(wanted, self.group, core.now_ms(), with_retry=False)
        self._turn = 0
        self._ahead: dict[str, int] = {}
        self._created_ms = core.now_ms()
        self._processor = ConsumerProcessor(
            core, self.group, lambda: None, lambda _topic: {}, self._running_info
        )

    async def _open(self) -> None:
        self._processor.open()
        await self._announce()

    async def _close(self, error: BaseException | None) -> None:
        if self._processor.is_open:
            self._processor.close()
            await self.instance.heartbeats.leave_consumer(self.group)

    async def subscribe(self, topic: str, selector: str | MessageSelector = "*") -> None:
        """Receive messages of this topic as well, or with another selector from now on."""
        topic = self._namespace.wrap(topic)
        self._subscriptions[topic] = subscription_of(topic, selector, self.instance.now_ms())
        await self._announce()

    async def unsubscribe(self, topic: str) -> None:
        """Receive no more messages of this topic."""
        self._subscriptions.pop(self._namespace.wrap(topic), None)
        await self._announce()

    async def receive(
        self, max_messages: int = MAX_MESSAGES, invisible_duration: float = 60.0
    ) -> list[MessageExt]:
        """Return 1 to `max_messages` (at most 32) messages of one topic and broker.

        Returns an empty list after `await_duration` seconds without messages. Nobody else receives the
        messages for `invisible_duration` seconds, 10 to 43,200.

        If no broker has messages, raises the error of one that failed, such as NotSupported for a broker of
        4.x. After a cancellation, messages already lent are redelivered after their invisible duration.
        """
        _check("max_messages", max_messages, 1, MAX_MESSAGES)
        _check("invisible_duration", invisible_duration, MIN_INVISIBLE, MAX_INVISIBLE)
        deadline = trio.current_time() + self._await
        self._turn += 1
        rounds = 0
        while True:
            failures: list[ClientError] = []
            sources = await self._sources(failures)
            waits = len(sources) == 1
            working = []
            for source in sources:
                poll = max(0.0, deadline - trio.current_time()) if waits else 0.0
                try:
                    found = await self._pop(source, max_messages, invisible_duration, poll)
                except ClientError as error:
                    failures.append(self._failed(source, error))
                    continue
                if found:
                    return found
                if found is not None or not waits:  # otherwise it has waited
                    working.append(source)
            if not working or not (waits or await self._told(working, deadline, failures)):
                if failures:
                    raise failures[0]
                return []
            pause = _PAUSES[min(rounds, len(_PAUSES) - 1)]
            await trio.sleep(min(pause, max(0.0, deadline - trio.current_time())))
            rounds += 1

    async def ack(self, message: MessageExt) -> None:
        """Acknowledge a message, so that the group does not receive it again.

        Raises InvalidRequest if its invisible duration is over.
        """
        handle, topic = self._handle(message)
        address = await lender(self.instance, topic, handle.broker_name)
        await acknowledge(self.instance, address, self.group, topic, handle)

    async def change_invisible_duration(self, message: MessageExt, invisible_duration: float) -> None:
        """Let the message be received again `invisible_duration` seconds from now, 0 to 43,200.

        The message gets a new receipt handle, which a later `ack` uses. Raises InvalidRequest if its
        invisible duration is over.
        """
        _check("invisible_duration", invisible_duration, 0, MAX_INVISIBLE)
        handle, topic = self._handle(message)
        changed = await change(self.instance, self.group, topic, handle, _ms(invisible_duration))
        message.properties[PropertyName.POP_CK] = changed.encode()

    async def _sources(self, failures: list[ClientError]) -> list[_Source]:
        """Return the sources to query, beginning with a different one each time. Slaves lend no messages."""
        if not self._subscriptions:
            raise InvalidRequest("no topic is subscribed")
        sources = []
        for topic, subscription in list(self._subscriptions.items()):
            try:
                route = await self.instance.route(topic)
            except ClientError as error:
                failures.append(error)
                continue
            for name in sorted({queue.broker_name for queue in route.subscribe}):
                address = route.brokers.get(name, {}).get(MASTER_ID)
                if address is None:
                    failures.append(no_master(self.instance, topic, name))
                else:
                    sources.append(_Source(MessageQueue(topic, name, ANY_QUEUE), address, subscription))
        first = self._turn % max(1, len(sources))
        return sources[first:] + sources[:first]

    def _failed(self, source: _Source, error: ClientError) -> ClientError:
        if isinstance(error, UNREACHED):
            self.instance.routes.doubt(source.queue.topic)
        if isinstance(error, NotSupported):
            error.args = (f"{error.fact}; SimpleConsumer needs a broker of 5.x, PushConsumer does not",)
        self.instance.outages.failed("receiving from", source.queue, error)
        return error

    async def _pop(
        self, source: _Source, max_messages: int, invisible_duration: float, poll: float
    ) -> list[MessageExt] | None:
        """Return messages; None if there are none, an empty list if the selector excluded them."""
        queue, address, subscription = source
        expression, expression_type = subscription.selector
        header = PopMessageRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=max_messages,
            invisible_time=_ms(invisible_duration),
            poll_time=_ms(poll),
            born_time=BROKER_CLOCK,
            init_mode=INIT_MODES[self._settings.consume_from],
            exp_type=expression_type,
            exp=expression or "*",
            order=self._orderly,
        )
        lent = await pop(self.instance, address, queue, header, timeout=self.instance.timeout + poll)
        if lent is None:
            return None
        messages = lent.messages
        self._ahead[queue.broker_name] = self.instance.now_ms() - lent.header.pop_time
        self._namespace.unwrap_messages(messages)
        tags = subscription.tags
        for message in messages:
            if tags and message.tags not in tags:
                with contextlib.suppress(ClientError):  # then it is redelivered
                    await self.ack(message)
        return [message for message in messages if not tags or message.tags in tags]

    async def _told(self, sources: list[_Source], deadline: float, failures: list[ClientError]) -> bool:
        """Wait until a broker has messages. Return False if none has any by the deadline."""
        poll = max(0.0, deadline - trio.current_time())
        has_messages = False

        async def ask(source: _Source) -> None:
            nonlocal has_messages
            header = NotificationRequestHeader(
                consumer_group=self.group,
                topic=source.queue.topic,
                queue_id=source.queue.queue_id,
                poll_time=_ms(poll),
                born_time=BROKER_CLOCK,
                order=self._orderly,
            )
            timeout = self.instance.timeout + poll
            try:
                answer = await self.instance.ask(source.address, NOTIFICATION, header, None, timeout=timeout)
                told = answer.header
                if told.polling_full:
                    raise polling_full(source.address)
            except ClientError as error:
                failures.append(self._failed(source, error))
                return
            if told.has_msg:
                has_messages = True
                nursery.cancel_scope.cancel()

        if poll:
            async with trio.open_nursery() as nursery:
                for source in sources:
                    nursery.start_soon(ask, source)
        return has_messages

    def _handle(self, message: MessageExt) -> tuple[ReceiptHandle, str]:
        """Return the handle of a message and its topic. Raises InvalidRequest."""
        text = message.properties.get(PropertyName.POP_CK)
        if text is None:
            raise InvalidRequest(f"message {message.msg_id} has no receipt handle: it was not received")
        try:
            handle = ReceiptHandle.decode(text)
        except HeaderError as error:
            raise InvalidRequest(str(error)) from None
        # Without a message from this broker, the difference of our clocks is unknown.
        ahead = self._ahead.get(handle.broker_name)
        if ahead is not None and self.instance.now_ms() - ahead >= handle.pop_time + handle.invisible_time:
            raise InvalidRequest(
                f"the receipt handle of message {message.msg_id} has expired, because its invisible duration of "
                f"{seconds_text(handle.invisible_time / 1000)} is over; the message is received again"
            )
        return handle, self._namespace.wrap(message.topic)

    async def _announce(self) -> None:
        await self.instance.heartbeats.announce_consumer(
            self.group, ConsumeType.CONSUME_ACTIVELY, self._settings, self._data()
        )

    def _data(self) -> list[SubscriptionData]:
        return [one.data for one in self._subscriptions.values()]

    def _running_info(self, stacks: bool) -> ConsumerRunningInfo:
        return pull_info(self.instance, self.group, self._created_ms, self._data())


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidRequest(f"{name} is {value}, out of range [{low:g}, {high:g}]")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
