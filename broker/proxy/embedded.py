"""The front of a broker in its own process: calls use the same functions as the handlers of remoting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import trio

from rmqcli.broker.auth.control import AccessControl
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.filters import is_tag_type
from rmqcli.broker.handlers import clients as client_handlers
from rmqcli.broker.handlers import offsets, timers, transactions
from rmqcli.broker.handlers.common import after_flush, is_unflushed, no_topic
from rmqcli.broker.handlers.pop import check_pop, wanted_by
from rmqcli.broker.handlers.pull import read, selection_of
from rmqcli.broker.handlers.send import accepted, begin_sends, known_topic, stored
from rmqcli.broker.net.dispatch import Barrier
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import LongWork
from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.backend import (
    Backend,
    BrokerQueues,
    Outgoing,
    PlainSends,
    Pulled,
    Stored,
    Wish,
)
from rmqcli.broker.proxy.calling import Caller
from rmqcli.broker.proxy.clients import Client
from rmqcli.broker.proxy.convert import queue_of_group
from rmqcli.broker.proxy.front import open_front
from rmqcli.broker.proxy.http2 import in_task
from rmqcli.broker.services.clients import watch_session
from rmqcli.broker.services.holds import Hold
from rmqcli.broker.services.pop.values import PopRequest, PopResult
from rmqcli.broker.services.put import begin_flush, put_sends, safely_stored, topics_at
from rmqcli.broker.services.timers import recall_handle
from rmqcli.broker.store.values import AppendResult, GetResult, GetStatus, StoreMessage
from rmqcli.broker.tables.attributes import message_type
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.bodies.heartbeat import HeartbeatData
from rmqcli.codec.codes import MessageSysFlag, RequestCode, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.clients import UnregisterClientRequestHeader
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.headers.send import RecallMessageRequestHeader, SendMessageRequestHeaderV2
from rmqcli.codec.headers.transactions import EndTransactionRequestHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import TIMER_TOPIC, SystemTopic
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.receipt_handle import ReceiptHandle
from rmqcli.codec.records.reading import decode_records

ResultT = TypeVar("ResultT")
ANY_QUEUE: Final = -1
_OFFSETS: Final[dict[int, Callable[..., Any]]] = {
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search_offset,
    RequestCode.GET_MAX_OFFSET: offsets.max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.min_offset,
}


async def ready(broker: BrokerContext, function: Callable[..., ResultT], *arguments: object) -> ResultT:
    """Call a function that uses the store once the disk is ready, and wait for the work that precedes its
    reply, such as saving a new topic.
    """
    barriers: list[Barrier] = []

    def attempt() -> ResultT:
        _taken(broker)
        try:
            return function(*arguments)
        finally:
            # Also after NotReady: what the attempt has begun has to end before the answer.
            barriers.extend(_taken(broker))

    try:
        result = broker.store.attempt(attempt)
    except NotReady:
        await in_task()
        result = await broker.store.when_ready(attempt)
    if barriers:
        await in_task()
    for barrier in barriers:
        await barrier()
    return result


def _taken(broker: BrokerContext) -> list[Barrier]:
    """Take the barrier that a function has set."""
    barrier, broker.store.barrier = broker.store.barrier, None
    return [] if barrier is None else [barrier]


class _PlainSends(PlainSends):
    """Plain sends (`rmqcli.codec.core.sends`) to the broker of a front."""

    def __init__(self, broker: BrokerContext, session: Session) -> None:
        self._broker = broker
        self._sends = begin_sends(broker, session)
        self._next_queue = broker.rng.getrandbits(16)

    def add(self, topic: str, message: Outgoing) -> bool:
        config = self._broker.checked_topics.get(topic)
        if config is None:
            return False
        group = message.properties.get(PropertyName.SHARDING_KEY)
        queues = max(1, config.write_queue_nums)
        queue_id = self._next_queue % queues if group is None else queue_of_group(group, queues)
        self._next_queue += 1
        return self._sends.add(topic, queue_id, message.text.encode(), message.body, message.born_ms)

    def store(self) -> tuple[list[int], Coroutine[Any, Any, ResponseCode] | None]:
        broker, sends = self._broker, self._sends
        put_sends(broker, sends)
        offsets = [queue_offset for *_, queue_offset in sends.results()]
        if not broker.waits_for_store:
            return offsets, None
        begin_flush(broker)
        return offsets, safely_stored(broker, sends.run.end)


class EmbeddedBackend(Backend):
    """The broker that a front belongs to."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self.turns = broker.turns
        self.address = broker.address
        self.broker_name = broker.name

    @property
    def access(self) -> AccessControl | None:
        return self._broker.access

    @property
    def checks_types(self) -> bool:
        return self._broker.config.enable_topic_message_type_check

    @property
    def max_message_size(self) -> int:
        return self._broker.config.max_message_size

    @property
    def longest_delay_ms(self) -> int:
        return self._broker.config.timer_max_delay_sec * 1000

    def now_ms(self) -> int:
        return self._broker.now_ms()

    async def _handled(
        self,
        caller: Caller,
        handler: Callable[..., Any],
        header: Any,
        body: Any = None,
        *,
        code: int = 0,
        session: Any = None,
    ) -> Any:
        """Return the reply header of a remoting handler to a request of this caller. `session` is its
        connection, unless another channel takes its place. Raises Refusal.
        """
        command = caller.command(code)
        request: Request[Any, Any] = Request(header, body, command, session or caller.session)
        answer: Any = await ready(self._broker, handler, self._broker, request)
        if isinstance(answer, LongWork):
            await answer.run(caller.session.turns)
            answer = await ready(self._broker, answer.finish)
        if isinstance(answer, Coroutine):
            answer = await answer
        return answer.header if isinstance(answer, Reply) else None

    # topics, groups and clients

    def knows(self, topic: str) -> bool:
        return self._broker.topics.get(topic) is not None

    async def topic(self, caller: Caller, name: str) -> Sequence[BrokerQueues]:
        broker = self._broker
        config = await ready(broker, self._known_topic, caller, name)
        perm = config.perm & broker.config.broker_permission
        kind = message_type(config)
        return [BrokerQueues(broker.name, perm, config.read_queue_nums, config.write_queue_nums, kind)]

    def _known_topic(self, caller: Caller, name: str) -> TopicConfig:
        config = self._broker.topics.get(name)
        if config is not None:
            return config
        if self._broker.is_slave:
            raise no_topic(name)
        return known_topic(self._broker, caller.session, name)

    async def type_of(self, topic: str) -> str:
        return message_type(self._broker.topics.get(topic))

    async def group(self, name: str) -> SubscriptionGroupConfig | None:
        return self._broker.groups.get(name)

    async def register(self, caller: Caller, client: Client, data: HeartbeatData) -> None:
        await self._handled(
            caller, client_handlers.heartbeat, None, data, code=RequestCode.HEART_BEAT, session=client
        )

    async def unregister(self, caller: Caller, client: Client, group: str) -> None:
        header = UnregisterClientRequestHeader(client_id=client.client_id, consumer_group=group)
        await self._handled(caller, client_handlers.unregister, header, session=client)

    # sending

    async def send(
        self, caller: Caller, topic: str, messages: Sequence[Outgoing]
    ) -> Sequence[Stored | Refusal]:
        broker = self._broker
        results: list[Stored | Refusal] = []
        queue_id, end = ANY_QUEUE, 0
        for one in messages:
            request = self._request(caller, topic, one)
            try:
                message, result, queue_id = await ready(broker, self._store, request, queue_id)
            except Refusal as refusal:
                results.append(refusal)
                continue
            end = max(end, result.physical_offset + result.size) if message.wait_store else end
            half_at = result.physical_offset if message.topic == SystemTopic.TRANS_HALF else -1
            recall = recall_handle(broker, message) or "" if message.topic == TIMER_TOPIC else ""
            results.append(Stored(broker.name, result.queue_offset, ResponseCode.SUCCESS, half_at, recall))
        if end and broker.waits_for_store:
            begin_flush(broker)
            await in_task()
            code = await safely_stored(broker, end)
            if code != ResponseCode.SUCCESS:
                return [one._replace(code=code) if isinstance(one, Stored) else one for one in results]
        return results

    def _request(
        self, caller: Caller, topic: str, message: Outgoing
    ) -> Request[SendMessageRequestHeaderV2, bytes]:
        """Return the send of a message, as a producer of the group that has the name of the topic (as in Java)."""
        is_half = PropertyName.TRAN_MSG in message.properties
        header = SendMessageRequestHeaderV2(
            producer_group=topic,
            topic=topic,
            default_topic=SystemTopic.AUTO_CREATE,
            default_topic_queue_nums=self._broker.config.default_topic_queue_nums,
            queue_id=ANY_QUEUE,
            sys_flag=MessageSysFlag.TRANSACTION_PREPARED if is_half else 0,
            born_timestamp=message.born_ms,
            flag=0,
            properties=message.text,
        )
        command = caller.command(RequestCode.SEND_MESSAGE_V2)
        return Request(header, message.body, command, caller.session)

    def _store(
        self, request: Request[SendMessageRequestHeaderV2, bytes], queue_id: int
    ) -> tuple[StoreMessage, AppendResult, int]:
        broker = self._broker
        message, chosen = accepted(broker, request)
        if message.topic == request.header.topic:
            group = message.properties.get(PropertyName.SHARDING_KEY)
            config = broker.topics.get(message.topic)
            if group is not None and config is not None:
                chosen = queue_of_group(group, max(1, config.write_queue_nums))
            elif queue_id != ANY_QUEUE:
                chosen = queue_id
            message.queue_id = chosen
        return message, stored(broker, message), chosen

    def plain_sends(self, session: Session) -> PlainSends | None:
        return _PlainSends(self._broker, session) if self._broker.takes_runs else None

    async def end_transaction(
        self, caller: Caller, topic: str, broker_name: str, header: EndTransactionRequestHeader
    ) -> None:
        try:
            topics = await ready(self._broker, topics_at, self._broker, header.commit_log_offset)
        except CodecError:
            topics = None
        if topics is None or topics.real != topic or broker_name not in ("", self.broker_name):
            text = f"there is no such transaction in topic {topic}"
            raise StatusError(Code.INVALID_TRANSACTION_ID, text)
        await self._handled(caller, transactions.end_transaction, header, code=RequestCode.END_TRANSACTION)

    async def recall(self, caller: Caller, topic: str, handle: str) -> str:
        header = RecallMessageRequestHeader(topic=topic, recall_handle=handle, producer_group=topic)
        recalled = await self._handled(caller, timers.recall, header, code=RequestCode.RECALL_MESSAGE)
        return str(recalled.msg_id)

    # receiving

    async def receive(
        self, caller: Caller, wish: Wish, until: float
    ) -> list[tuple[ReceiptHandle, MessageExt]] | None:
        broker = self._broker
        group, topic, kind, text = wish.group, wish.topic, wish.kind, wish.text
        if not is_tag_type(kind):
            await broker.filters.compiler.prepare(broker.filters.compiler.slow([text]))
        config = await ready(broker, self._checked, caller, wish)
        pop = PopRequest(
            group=group,
            topic=topic,
            max_messages=wish.max_messages,
            invisible_ms=wish.invisible_ms,
            wanted=await ready(broker, wanted_by, broker, group, topic, kind, text),
            order=bool(config.consume_message_orderly),
            attempt_id=wish.attempt_id,
        )
        result = await self._popped(caller, pop, until)
        if result is None:
            return None
        lent = list(result.messages(topic, broker.name))
        if lent and is_unflushed(broker, result.end):
            async with self.released_unless_done(group, topic, [handle for handle, _ in lent]) as unflushed:
                await broker.store.wait_flushed(result.end)
                unflushed.clear()
        return lent

    def _checked(self, caller: Caller, wish: Wish) -> SubscriptionGroupConfig:
        broker = self._broker
        if broker.topics.get(wish.topic) is None and not broker.is_slave:
            known_topic(broker, caller.session, wish.topic)
        return check_pop(broker, caller.session, wish.group, wish.topic, ANY_QUEUE, wish.max_messages)

    async def _popped(self, caller: Caller, pop: PopRequest, until: float) -> PopResult | None:
        """Return the result of a pop by `until`; an empty one if the client leaves before."""
        pops = self._broker.pops
        client = caller.front.clients.find(caller.client_id, caller.access_key)
        if client is None:
            return await pops.receive(pop, until, caller.session)
        with client.receiving():
            return await pops.receive(pop, until, caller.session)
        return PopResult(0, 0, 0)  # the client has left, which has cancelled this

    async def ack(self, group: str, topic: str, handle: ReceiptHandle) -> bool:
        return await ready(self._broker, self._broker.pops.ack, group, topic, handle)

    async def change(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle | None:
        return await ready(self._broker, self._broker.pops.change, group, topic, handle, invisible_ms)

    async def release(self, group: str, topic: str, handle: ReceiptHandle, *, counts: bool = False) -> None:
        await self._broker.pops.release(group, topic, handle, counts=counts)

    async def to_dead_letters(self, group: str, topic: str, handle: ReceiptHandle, message_id: str) -> bool:
        return await self._broker.pops.to_dead_letters(group, topic, handle)

    # reading by offsets

    async def pull(
        self, caller: Caller, broker_name: str, header: PullMessageRequestHeader, until: float
    ) -> Pulled | None:
        broker = self._broker
        if not is_tag_type(header.expression_type):
            await broker.filters.compiler.prepare(broker.filters.compiler.slow([header.subscription]))
        while True:
            news = trio.Event()
            result, found, hold = await ready(broker, self._read, caller, header, until, news)
            if found and is_unflushed(broker, result.end):
                await after_flush(broker, None, result.end)  # type: ignore[type-var]
            if found or hold is None or trio.current_time() >= until:
                return Pulled(
                    result.status, found, result.next_begin_offset, result.min_offset, result.max_offset
                )
            if not broker.holds.hold(hold):
                return None
            watch_session(broker, caller.session)
            await news.wait()

    def _read(
        self, caller: Caller, header: PullMessageRequestHeader, until: float, news: trio.Event
    ) -> tuple[GetResult, list[MessageExt], Hold | None]:
        """Return the result of one read, its messages, and the hold that waits for more, if that helps."""
        wanted = selection_of(self._broker, caller.session, header)
        result = read(self._broker, header, wanted)
        found: list[MessageExt] = []
        if result.status is GetStatus.FOUND:
            found = [one for view in result.views for one in decode_records(view)]
        if found or result.status not in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE):
            return result, found, None
        hold = Hold(
            caller.session,
            news.set,
            header.topic,
            header.queue_id,
            result.next_begin_offset,
            until,
            wanted.codes,
            wanted.sql.accepts if wanted.sql is not None else None,
        )
        return result, found, hold

    async def ask(
        self, caller: Caller, broker_name: str, operation: Operation[Any, Any, None, None], header: Any
    ) -> Any:
        return await self._handled(caller, _OFFSETS[operation.code], header)


@asynccontextmanager
async def open_broker_front(
    broker: BrokerContext, host: str, port: int, **options: Any
) -> AsyncIterator[int]:
    """Serve the gRPC clients of a broker inside the block; yield the port. For `options` and errors see
    `open_front`."""
    limits, backlog = ServerLimits.of(broker.config), broker.config.server_socket_backlog
    front = open_front(EmbeddedBackend(broker), host, port, limits=limits, backlog=backlog, **options)
    async with front as broker.grpc_port:
        try:
            yield broker.grpc_port
        finally:
            broker.grpc_port = None
