"""Sends (Java `DefaultMQProducer`): choice of a queue, request, and after a failure another broker.

A retry after a lost reply may store a message twice, with the same UNIQ_KEY. Only a reply leads to a
SendResult; every failure raises. The timeout covers route, connection, all attempts and the reply.
"""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, Unpack

import trio

from rmqcli.client.errors import (
    UNREACHED,
    BrokerRefused,
    ClientError,
    InvalidRequest,
    UnexpectedReply,
    refusal,
)
from rmqcli.client.hooks import ClientHook, Sending
from rmqcli.client.identity import FORBIDDEN_PRODUCER, Namespace, check_group_name
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions
from rmqcli.client.metrics import ProducerMetrics, SendCounts
from rmqcli.client.produce.outgoing import (
    COMPRESS_LEVEL,
    COMPRESS_OVER,
    MAX_MESSAGE_SIZE,
    Outgoing,
    Packed,
    Preparer,
    SendHeaders,
    batch_outgoing,
)
from rmqcli.client.produce.request_reply import (
    REQUEST_TIMEOUT,
    Requests,
    create_reply_message,
    requester_is_gone,
)
from rmqcli.client.produce.retries import RETRY_CODES, worth_another
from rmqcli.client.produce.send_soon import IN_FLIGHT, SendCallback, Underway
from rmqcli.client.produce.targets import QueueSelector, Targets
from rmqcli.client.results import SEND_STATUSES, SendResult, SendStatus, send_result
from rmqcli.client.routing.latency_fault_tolerance import LatencyFaults
from rmqcli.client.trace.dispatcher import Traceable, TraceDispatcher, trace_topic
from rmqcli.client.trace.records import published
from rmqcli.client.wire.requests import read_header
from rmqcli.codec.codes import MASTER_ID
from rmqcli.codec.headers.send import RecallMessageRequestHeader
from rmqcli.codec.ids import UniqIdFactory
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.messages import RECALL_MESSAGE
from rmqcli.codec.recall_handle import RecallHandle

log = logging.getLogger("rmqcli.client.produce")
ResultT = TypeVar("ResultT", SendResult, str)


class ProducerSettings(InstanceOptions, total=False):
    """Options of a producer with a separate instance."""

    send_timeout: float
    retries: int
    compress_over: int
    compression: str | None
    compress_level: int
    max_message_size: int
    allow_empty: bool
    latency_faults: bool
    retry_unstored: bool
    trace: bool | str
    trace_waits: bool
    in_flight: int


class ProducerOptions(ProducerSettings, total=False):
    """Options of Producer apart from its group."""

    instance: ClientInstance | None


class Producer(Traceable, Client):
    """Sends messages. Any number of tasks may send concurrently, over one connection per broker.

    `group` is the producer group, `send_timeout` in seconds, `retries` the number of further attempts (only
    without `queue` and `selector`), `compress_over` and `max_message_size` in bytes, `compression` zlib, lz4,
    zstd or None, `compress_level` from 1 (fast) to 9 (small). `allow_empty` permits empty bodies, which
    Java's producer refuses. `latency_faults` avoids brokers that respond slowly or not at all.
    `retry_unstored` also retries on another broker after a SendStatus other than SEND_OK, which may store the
    message twice. `trace`: True writes traces to RMQ_SYS_TRACE_TOPIC, a string to the topic of that full
    name. If too many traces are waiting, sends wait with `trace_waits`; without it, traces are dropped.
    `in_flight`: the limit of concurrent sends of `send_soon`. With a shared `instance`, `namespace` and
    `hook` may differ from those of the instance. For more options see InstanceOptions.

    ```python
    async with Producer("shop", compression="zstd") as producer:
        result = await producer.send(Message.of("orders", b"hello", keys=["order-42"]))
    assert result.status is SendStatus.SEND_OK
    ```
    """

    def __init__(
        self,
        group: str = "rmq",
        *,
        send_timeout: float = 3.0,
        retries: int = 2,
        compress_over: int = COMPRESS_OVER,
        compression: str | None = "zlib",
        compress_level: int = COMPRESS_LEVEL,
        max_message_size: int = MAX_MESSAGE_SIZE,
        allow_empty: bool = False,
        latency_faults: bool = False,
        retry_unstored: bool = False,
        trace: bool | str = False,
        trace_waits: bool = False,
        in_flight: int = IN_FLIGHT,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(instance, options)
        check_group_name(group, FORBIDDEN_PRODUCER)
        core = self.instance
        named = options.get("namespace")
        self._namespace = core.namespace if named is None else Namespace(named)
        self.group = self._namespace.wrap(group)
        self._send_timeout = send_timeout
        self._retries = retries
        ip = ipaddress.ip_address(core.ip).packed
        ids = UniqIdFactory(ip, os.getpid(), core.random.getrandbits(32), core.now_ms)
        self._preparer = Preparer(
            ids.next,
            compress_over=compress_over,
            compression=compression,
            compress_level=compress_level,
            max_message_size=max_message_size,
            allow_empty=allow_empty,
        )
        self._faults = LatencyFaults(core.random) if latency_faults else None
        self._targets = Targets(core, self._faults)
        self._retry_unstored = retry_unstored
        topic = trace_topic(trace)
        self._requests = Requests(core, self._namespace)
        self._trace = (
            None
            if topic is None
            else TraceDispatcher(core, Producer, group, "PRODUCE", topic, waits=trace_waits)
        )
        # Without observers each send skips one coroutine.
        self._attempt = self._request if self._faults is None and topic is None else self._observed
        hook = options.get("hook", core.hook)
        self._deliver: Callable[..., Coroutine[Any, Any, SendResult]] = self._delivered
        self._deliver_oneway: Callable[..., Awaitable[str]] = self._delivered_oneway
        if hook is not None:
            self._deliver = partial(self._hooked, hook, self._delivered)
            self._deliver_oneway = partial(self._hooked, hook, self._delivered_oneway)
        self._headers = SendHeaders(core, self.group)
        self._counts = SendCounts()
        # Bound once: these are called for every send.
        self._cached_route = core.routes.cached
        self._ask = core.pool.request
        self.underway = Underway(core, in_flight)

    async def _open(self) -> None:
        self.instance.heartbeats.join_producer(self.group)
        self._requests.open()
        await self.underway.open()
        if self._trace is not None:
            await self._trace.start()

    async def _close(self, error: BaseException | None) -> None:
        try:
            await self.underway.close(wait=error is None)
        finally:
            self._requests.close()
            if self._trace is not None:
                await self._trace.close()
            await self.instance.heartbeats.leave_producer(self.group)

    def metrics(self) -> ProducerMetrics:
        """Return the totals of sent messages, and the number of sends in flight."""
        return self._counts.metrics(self.instance.pool.reconnects)

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of `topic`, or those that it would get if it does not exist yet."""
        deadline = self.instance.clock() + self.instance.timeout
        route = await self._targets.route(self._namespace.wrap(topic), deadline)
        return self._namespace.unwrap_queues(route.publish)

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send one message and wait for the reply.

        Raises InvalidRequest before anything is sent, NoRoute, ConnectionFailed, ConnectionLost,
        RequestTimeout, or BrokerRefused with the code of the broker. If an error has `maybe_stored` set, it
        is unknown whether the message is stored. With `queue` or `selector` there is only one attempt.
        """
        return await self.delivery(message, queue, selector, timeout)

    def delivery(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        timeout: float | None,
    ) -> Coroutine[Any, Any, SendResult]:
        """Return the coroutine of `send`, which can be detached. Its timeout has started."""
        deadline = self.instance.clock() + (self._send_timeout if timeout is None else timeout)
        return self._deliver([message], queue, selector, deadline)

    async def send_soon(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send in the background; wait only while `in_flight` sends are running.

        `callback` is called with the SendResult, or with the exception that `send` would have raised; without
        a callback, a failure is logged. Messages may overtake each other. If the producer's `async with`
        block ends normally, all sends and callbacks are awaited. If an exception or a cancellation ends it,
        they are cancelled: no callback is called, and the messages may or may not have been stored.
        """
        await self.underway.room()
        send = self.delivery(message, queue, selector, timeout)
        self.underway.begin(send, callback, copy_context())

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send messages of one topic to one queue in one request, all or none. See `split_batch`."""
        deadline = self.instance.clock() + (self._send_timeout if timeout is None else timeout)
        return await self._deliver(messages, queue, selector, deadline, in_batch=True)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> str:
        """Send without a reply. Return the message id as soon as the operating system has the request.

        It is unknown whether the message is stored. There is one attempt. Raises the errors of `send`, but
        BrokerRefused only for the route.
        """
        deadline = self.instance.clock() + (self._send_timeout if timeout is None else timeout)
        return await self._deliver_oneway([message], queue, selector, deadline)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float = REQUEST_TIMEOUT,
    ) -> MessageExt:
        """Send a message and wait for its reply, within `timeout` seconds in total.

        Raises ReplyTimeout if the request was stored but no reply came, otherwise the errors of `send`. The
        reply has no queue offset.
        """
        send = partial(self.send, queue=queue, selector=selector)
        return await self._requests.ask(message, timeout, send)

    async def reply(
        self,
        request: MessageExt,
        body: bytes | str,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> SendResult | None:
        """Reply to a consumed request. Return None if the requesting client has disconnected, because
        consuming the request again would not help. Raises the errors of `send`.
        """
        try:
            return await self.send(create_reply_message(request, body, properties), timeout=timeout)
        except BrokerRefused as error:
            if not requester_is_gone(error):
                raise
            log.info("the reply to %s was dropped: %s", request.msg_id, error)
            return None

    async def recall(self, topic: str, handle: str, *, timeout: float | None = None) -> str:
        """Take back a message that is not due yet, given the `recall_handle` of its SendResult. Return its
        message id.

        The broker drops the message when it is due; success does not mean that it was still waiting. Raises
        InvalidRequest for an invalid handle, and the errors of `send`.
        """
        topic = self._namespace.wrap(topic)
        try:
            queue = MessageQueue(topic, RecallHandle.decode(handle).broker_name, 0)
        except ValueError as error:
            raise InvalidRequest(f"{handle!r}: {error}") from None
        header = RecallMessageRequestHeader(topic=topic, recall_handle=handle, producer_group=self.group)
        left = self._send_timeout if timeout is None else timeout
        address, *_ = await self.instance.broker_addresses(queue)
        answer = await self.instance.ask(address, RECALL_MESSAGE, header, None, timeout=left)
        return answer.header.msg_id

    def _wrapped(
        self,
        messages: Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        *,
        in_batch: bool = False,
    ) -> tuple[list[Message], MessageQueue | None, QueueSelector | None]:
        space = self._namespace
        return (
            [space.wrap_message(message, in_batch=in_batch) for message in messages],
            None if queue is None else space.wrap_queue(queue),
            None if selector is None else space.wrap_selector(selector, messages[0]),
        )

    async def _hooked(
        self,
        hook: ClientHook,
        deliver: Callable[..., Awaitable[ResultT]],
        messages: Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        deadline: float,
        **batch: bool,
    ) -> ResultT:
        if not messages:
            return await deliver(messages, queue, selector, deadline, **batch)  # raises InvalidRequest
        group, space = self._namespace.unwrap(self.group), self._namespace.name
        identified = [self._preparer.identified(message) for message in messages]
        sending = Sending(group, space, self.instance.client_id, identified, bool(batch))
        with hook.send(sending):
            try:
                result = await deliver(
                    sending.messages, queue, selector, deadline, brokers=sending.brokers, **batch
                )
            finally:
                if sending.brokers:
                    table = self.instance.routes.brokers.get(sending.brokers[-1], {})
                    sending.server = table.get(MASTER_ID, "")
            if not isinstance(result, str):
                sending.result = result
        return result

    async def _delivered_oneway(
        self,
        messages: Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        deadline: float,
        *,
        brokers: list[str] | None = None,
    ) -> str:
        if self._namespace.name:
            messages, queue, selector = self._wrapped(messages, queue, selector)
        (message,) = messages
        preparer = self._preparer
        packed = await preparer.packed(message) if len(message.body) >= preparer.compress_over else None
        outgoing = preparer.single(message, packed)
        route = await self._targets.route(outgoing.topic, deadline)
        target = queue or self._targets.queue(route, message, selector, None)
        if brokers is not None:
            brokers.append(target.broker_name)
        address = self._targets.master(route, target)
        request = self._headers.command(outgoing, target)
        counts, began = self._counts, trio.current_time()
        counts.running += 1
        try:
            await self.instance.pool.oneway(address, request, deadline - began)
        except BaseException as error:
            counts.failed += 1
            if isinstance(error, UNREACHED):
                error.maybe_stored = outgoing.msg_id if error.was_sent else ""
                self.instance.routes.doubt(outgoing.topic)
            raise
        finally:
            counts.end(trio.current_time() - began, 1, 1)
        return outgoing.msg_id

    async def _delivered(  # noqa: PLR0912, PLR0915  every further coroutine costs time in each send
        self,
        messages: Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        deadline: float,
        *,
        in_batch: bool = False,
        brokers: list[str] | None = None,
    ) -> SendResult:
        """Send the messages. The name of the broker of each attempt is appended to `brokers`."""
        if self._namespace.name and messages:
            messages, queue, selector = self._wrapped(messages, queue, selector, in_batch=in_batch)
        preparer = self._preparer
        is_long = not in_batch and len(messages[0].body) >= preparer.compress_over
        packed = await preparer.packed(messages[0]) if is_long else None
        outgoing = self._outgoing(messages, packed, queue, in_batch=in_batch)
        tries = 1 if queue or selector else 1 + self._retries
        brokers = [] if brokers is None else brokers
        unstored: SendResult | None = None
        failure: ClientError | None = None
        in_doubt = False
        counts, clock = self._counts, self.instance.clock
        began = clock()
        counts.running += 1
        try:
            while True:
                route = self._cached_route(outgoing.topic) or await self._targets.route(
                    outgoing.topic, deadline
                )
                if failure is not None and deadline <= trio.current_time():
                    # Reading the route again took the remaining time. Another attempt would blame a broker
                    # that got no request.
                    if unstored is not None:
                        return unstored
                    raise failure
                target = queue or self._targets.queue(
                    route, messages[0], selector, brokers[-1] if brokers else None
                )
                brokers.append(target.broker_name)
                try:
                    address = self._targets.master(route, target)
                    result = await self._attempt(
                        address, target, outgoing, deadline, tries - len(brokers), messages
                    )
                    if not self._retry_unstored or result.status is SendStatus.SEND_OK:
                        return result
                    unstored = result
                    if self._is_last(brokers, tries, deadline):
                        return result
                except UnexpectedReply:
                    in_doubt = True
                    raise
                except (*UNREACHED, BrokerRefused) as error:
                    in_doubt = in_doubt or error.was_sent
                    error.tries, error.brokers = len(brokers), tuple(dict.fromkeys(brokers))
                    if not isinstance(error, BrokerRefused):
                        self.instance.routes.doubt(route.topic)
                    is_last = self._is_last(brokers, tries, deadline)
                    if is_last or not worth_another(error, route, brokers):
                        if unstored is not None:
                            return unstored
                        raise
                    failure = error
        except BaseException as error:
            counts.failed += len(messages)
            if isinstance(error, ClientError):
                error.maybe_stored = outgoing.msg_id if in_doubt else ""
            raise
        finally:
            counts.end(clock() - began, len(messages), len(brokers))

    def _outgoing(
        self,
        messages: Sequence[Message],
        packed: Packed | None,
        queue: MessageQueue | None,
        *,
        in_batch: bool,
    ) -> Outgoing:
        if in_batch:
            outgoing = batch_outgoing(messages, self._preparer, self._namespace.name)
        else:
            outgoing = self._preparer.single(messages[0], packed)
        if queue is not None and queue.topic != outgoing.topic:
            raise InvalidRequest(f"a message to {outgoing.topic} cannot go to a queue of {queue.topic}")
        return outgoing

    @staticmethod
    def _is_last(brokers: Sequence[str], tries: int, deadline: float) -> bool:
        return len(brokers) >= tries or deadline <= trio.current_time()

    async def _observed(
        self,
        address: str,
        queue: MessageQueue,
        outgoing: Outgoing,
        deadline: float,
        tries_left: int,
        messages: Sequence[Message],
    ) -> SendResult:
        """Call `_request`, record its latency, and trace it."""
        if self._trace is not None:
            # The time spent waiting for traces does not count towards the send timeout.
            deadline += await self._trace.room()
        began, began_ms = trio.current_time(), self.instance.now_ms()
        try:
            result = await self._request(address, queue, outgoing, deadline, tries_left, messages)
        except ClientError as error:
            # A broker is not at fault if it refuses a request that no broker accepts.
            self._record_latency(
                queue, began, failed=not isinstance(error, BrokerRefused) or error.code in RETRY_CODES
            )
            raise
        self._record_latency(queue, began)
        if self._trace is not None and result.trace_on:
            cost = trio.current_time() - began
            self._trace.put(published(self.group, messages, result, address, began_ms, cost))
        return result

    def _record_latency(self, queue: MessageQueue, began: float, *, failed: bool = False) -> None:
        if self._faults is not None:
            self._faults.update(queue.broker_name, trio.current_time() - began, failed=failed)

    async def _request(
        self,
        address: str,
        queue: MessageQueue,
        outgoing: Outgoing,
        deadline: float,
        tries_left: int,
        messages: Sequence[Message],
    ) -> SendResult:
        request = self._headers.request(outgoing, queue)
        left = deadline - self.instance.clock()
        # Connecting must leave time for the other attempts. Waiting for the reply may take all the time left,
        # because a second attempt of a request that was sent creates a second message.
        reply = await self._ask(address, request, left, deadline, left / (tries_left + 1))
        status = SEND_STATUSES.get(reply.code)
        if status is None:
            raise refusal(reply.code, reply.remark, address, request.code)
        header = read_header(outgoing.operation, reply, address)
        short = self._namespace.unwrap_queue(queue) if self._namespace.name else queue
        return send_result(status, outgoing.msg_id, short, header)
