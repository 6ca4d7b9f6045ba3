"""The brokers of a cluster as the backend of a gRPC front (Java's proxy in cluster mode)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import trio

from rmqcli.broker.auth.control import AccessControl
from rmqcli.broker.config import ProxyConfig
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.proxy.answers import StatusError, code_of
from rmqcli.broker.proxy.backend import (
    Backend,
    BrokerQueues,
    Outgoing,
    Pulled,
    Stored,
    Wish,
)
from rmqcli.broker.proxy.calling import Caller
from rmqcli.broker.proxy.clients import Client
from rmqcli.broker.proxy.convert import queue_of_group
from rmqcli.broker.proxy.http2 import in_task
from rmqcli.broker.store.values import GetStatus
from rmqcli.broker.tables.attributes import message_type
from rmqcli.client import (
    UNREACHED,
    BrokerRefused,
    ClientError,
    InvalidRequest,
    NotFound,
    NotPermitted,
    NotSupported,
    Producer,
    RequestTimeout,
)
from rmqcli.client.instance import ClientInstance
from rmqcli.client.pop.lent import ANY_QUEUE, BROKER_CLOCK, Lent, acknowledge, change, lender, pop
from rmqcli.client.results import PULL_STATUSES, PullStatus, SendResult
from rmqcli.client.routing.routes import Route
from rmqcli.client.wire.messages import read_messages
from rmqcli.client.wire.requests import read_answer
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import HeartbeatData
from rmqcli.codec.codes import MASTER_ID, PullSysFlag, ResponseCode
from rmqcli.codec.compression import COMPRESSED
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.groups import GetSubscriptionGroupConfigRequestHeader
from rmqcli.codec.headers.pop import PopMessageRequestHeader
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.headers.send import ConsumerSendMsgBackRequestHeader
from rmqcli.codec.headers.topics import GetTopicConfigRequestHeader
from rmqcli.codec.headers.transactions import EndTransactionRequestHeader
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.groups import GET_SUBSCRIPTIONGROUP_CONFIG
from rmqcli.codec.operations.messages import CONSUMER_SEND_MSG_BACK, END_TRANSACTION, PULL_MESSAGE
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.operations.topics import GET_TOPIC_CONFIG
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.proxy.codes import Code, MessageType
from rmqcli.codec.receipt_handle import ReceiptHandle
from rmqcli.flows.delays import delays_of, timer_problem
from rmqcli.proxy.members import Members
from rmqcli.proxy.users import ClusterUsers
from rmqcli.proxy.waiting import Key, Waiting

P = PropertyName
NORMAL = MessageType.NORMAL.name

KEPT_SECONDS: Final = 20.0
"""Time for which settings of groups and topics are used before they are read again."""
MOST_KEPT: Final = 16_384
# The route of each known topic is read again every 30 s, so made-up names would cost ever more.
MOST_TOPICS: Final = 16_384
AVOIDED_SECONDS: Final = 3.0
"""Time for which no messages are requested from a broker that did not respond."""
NEW_TOPIC_SECONDS: Final = 1.0
"""Time between two checks for a topic that does not exist yet."""
DEFAULT_RETRIES: Final = 16
FROM_LAST: Final = 1
DEAD_LETTER_LEVEL: Final = -1
ANY_DELAY: Final = 1 << 62
_PULLED: Final = {
    PullStatus.FOUND: GetStatus.FOUND,
    PullStatus.NO_NEW_MSG: GetStatus.NO_MESSAGE_IN_QUEUE,
    PullStatus.NO_MATCHED_MSG: GetStatus.NO_MATCHED_MESSAGE,
    PullStatus.OFFSET_ILLEGAL: GetStatus.OFFSET_OVERFLOW_BADLY,
}

log = logging.getLogger("rmqcli.proxy")


def status_error(error: ClientError) -> StatusError:
    """Return the error of a call that failed because of this one."""
    if isinstance(error, NotPermitted) and error.by_account:
        return StatusError(Code.FORBIDDEN, f"the account of the proxy may not do this: {error}")
    if isinstance(error, BrokerRefused):
        return StatusError(code_of(error.code), error.fact)
    if isinstance(error, RequestTimeout):
        return StatusError(Code.PROXY_TIMEOUT, str(error))
    code = Code.BAD_REQUEST if isinstance(error, InvalidRequest) else Code.INTERNAL_SERVER_ERROR
    return StatusError(code, str(error))


@contextmanager
def told() -> Iterator[None]:
    """Raise StatusError for each ClientError of the block."""
    try:
        yield
    except ClientError as error:
        raise status_error(error) from error


LentMessage = tuple[ReceiptHandle, MessageExt]


class _Kept(NamedTuple):
    """A value that was read from a broker, and the time until which it is used."""

    value: Any
    until: float


class RemoteBackend(Backend):
    """All brokers of a cluster. They determine the longest delay."""

    broker_name = None
    longest_delay_ms = ANY_DELAY

    def __init__(
        self,
        instance: ClientInstance,
        producer: Producer,
        config: ProxyConfig,
        access: AccessControl | None,
        users: ClusterUsers,
    ) -> None:
        self.turns = Turns()
        self.address = f"{instance.ip}:{config.listen_port}"
        self._instance = instance
        self._producer = producer
        self._config = config
        self._access = access
        self._users = users
        self._members = Members(instance)
        self._waiting = Waiting(instance)
        self._groups: dict[str, _Kept] = {}
        self._types: dict[str, _Kept] = {}
        self._delays: dict[str, _Kept] = {}
        self._ahead: dict[str, int] = {}
        self._avoided: dict[str, float] = {}
        self._turn = 0

    @property
    def access(self) -> AccessControl | None:
        """The rules. Raises StatusError while the users of the cluster are not known."""
        if self._users.unknown is not None:
            # A refusal would tell the client that its own account is wrong.
            raise status_error(self._users.unknown)
        return self._access

    @property
    def checks_types(self) -> bool:
        return self._config.enable_topic_message_type_check

    @property
    def max_message_size(self) -> int:
        return self._config.max_message_size

    def now_ms(self) -> int:
        return self._instance.now_ms()

    # topics, groups and clients

    async def topic(self, caller: Caller, name: str) -> Sequence[BrokerQueues]:
        """Return the queues of a topic on masters. One that brokers will create has the queues that it would get."""
        with told():
            route = await self._route(name)
        kind = NORMAL if route.fallback else await self.type_of(name)
        most = self._instance.default_queues if route.fallback else 1 << 16
        found = [
            BrokerQueues(
                one.broker_name,
                one.perm,
                min(one.read_queue_nums, most),
                min(one.write_queue_nums, most),
                kind,
            )
            for one in sorted(route.data.queue_datas, key=lambda one: one.broker_name)
            if MASTER_ID in route.brokers.get(one.broker_name, {})
        ]
        if not found:
            raise StatusError(Code.INTERNAL_SERVER_ERROR, f"no broker of topic {name} has a master")
        return found

    async def _route(self, topic: str) -> Route:
        """Return the route of a topic, or that of a topic that brokers will create. Raises StatusError if
        there are too many, because each is read again from time to time, and NoRoute.
        """
        routes = self._instance.routes
        known = routes.cached(topic)
        if known is not None:
            return known
        if len(routes) >= MOST_TOPICS:
            raise StatusError(Code.TOO_MANY_REQUESTS, f"the proxy serves {MOST_TOPICS} topics already")
        return await self._instance.route(topic, create=True)

    async def type_of(self, topic: str) -> str:
        kept = self._types.get(topic)
        if kept is None or kept.until < trio.current_time():
            await in_task()
            header = GetTopicConfigRequestHeader(topic=topic)
            config = None
            try:
                queue = next(iter((await self._instance.route(topic)).publish), None)
                if queue is not None:
                    config = (await self._instance.ask_queue(queue, GET_TOPIC_CONFIG, header)).body
            except (NotFound, NotSupported):
                pass  # brokers create it as a topic without the attribute, or are older than that
            except ClientError as error:
                log.warning("the type of topic %s is unknown, and taken for %s: %s", topic, NORMAL, error)
            kept = _Kept(message_type(config), trio.current_time() + KEPT_SECONDS)
            _keep(self._types, topic, kept)
        return str(kept.value)

    async def group(self, name: str) -> SubscriptionGroupConfig | None:
        kept = self._groups.get(name)
        if kept is None or kept.until < trio.current_time():
            await in_task()
            kept = _Kept(await self._read_group(name), trio.current_time() + KEPT_SECONDS)
            _keep(self._groups, name, kept)
        found: SubscriptionGroupConfig | None = kept.value
        return found

    async def _read_group(self, name: str) -> SubscriptionGroupConfig | None:
        header = GetSubscriptionGroupConfigRequestHeader(group=name)
        for table in list(self._instance.routes.brokers.values()):
            if MASTER_ID not in table:
                continue
            try:
                answer = await self._instance.ask(
                    table[MASTER_ID], GET_SUBSCRIPTIONGROUP_CONFIG, header, None
                )
            except (*UNREACHED, NotSupported):
                continue
            except ClientError as error:
                log.info("the settings of group %s are unknown: %s", name, error)
                continue
            return answer.body
        return None

    async def register(self, caller: Caller, client: Client, data: HeartbeatData) -> None:
        await self._members.join(client, data)

    async def unregister(self, caller: Caller, client: Client, group: str) -> None:
        self._members.leave(client, group)

    # sending

    async def send(
        self, caller: Caller, topic: str, messages: Sequence[Outgoing]
    ) -> Sequence[Stored | Refusal]:
        await in_task()
        with told():
            await self._route(topic)
            for one in messages:
                if P.TIMER_DELIVER_MS in one.properties:
                    await self._check_timer(topic, int(one.properties[P.TIMER_DELIVER_MS]) - self.now_ms())
            given = [Message(topic=topic, body=one.body, properties=one.properties) for one in messages]
            if len(given) > 1:
                result = await self._producer.send_batch(given)
                return [_stored(result, number) for number in range(len(given))]
            group = messages[0].properties.get(P.SHARDING_KEY)
            selector = None if group is None else partial(_queue_of_group, group)
            result = await self._producer.send(given[0], selector=selector)
            known = self._instance.routes.cached(topic)
            if known is not None and known.fallback:  # the send has created the topic
                self._instance.routes.outdate(topic)
        is_half = P.TRAN_MSG in messages[0].properties
        return [_stored(result, half_at=_log_offset(result) if is_half else -1)]

    async def _check_timer(self, topic: str, delay_ms: int) -> None:
        """Raise StatusError unless all brokers of a topic delay messages by this time: one without timers would
        deliver them at once."""
        kept = self._delays.get(topic)
        if kept is None or kept.until < trio.current_time():
            kept = _Kept(await delays_of(self._producer, topic), trio.current_time() + KEPT_SECONDS)
            _keep(self._delays, topic, kept)
        if problem := timer_problem(kept.value, delay_ms):
            raise StatusError(Code.ILLEGAL_DELIVERY_TIME, problem)

    async def end_transaction(
        self, caller: Caller, topic: str, broker_name: str, header: EndTransactionRequestHeader
    ) -> None:
        with told():
            address = await self._address(topic, broker_name, Code.INVALID_TRANSACTION_ID)
            try:
                await self._instance.ask(address, END_TRANSACTION, header, None)
            except BrokerRefused as error:
                if error.code == ResponseCode.SYSTEM_ERROR:  # no such half message, or that of another group
                    raise StatusError(Code.INVALID_TRANSACTION_ID, error.fact) from None
                raise

    async def recall(self, caller: Caller, topic: str, handle: str) -> str:
        with told():
            return await self._producer.recall(topic, handle)

    async def _address(self, topic: str, broker_name: str, code: Code) -> str:
        """Return the address of a master. Raises StatusError with this code for a broker that does not have
        the topic, and ClientError.
        """
        try:
            return await lender(self._instance, topic, broker_name)
        except NotFound as error:
            raise StatusError(code, error.fact) from None

    # receiving

    async def receive(self, caller: Caller, wish: Wish, until: float) -> list[LentMessage] | None:
        config = await self.group(wish.group)
        attempts = 1 + (DEFAULT_RETRIES if config is None else config.retry_max_times)
        key = Key(wish.group, wish.topic, config is not None and bool(config.consume_message_orderly))
        receive = partial(self._received, wish, key, attempts, until)
        client = caller.front.clients.find(caller.client_id, caller.access_key)
        if client is None:
            return await receive()
        with client.receiving():
            return await receive()
        return []  # the client has left, which has cancelled this

    async def _received(self, wish: Wish, key: Key, attempts: int, until: float) -> list[LentMessage] | None:
        while True:
            with told():
                route = await self._existing(wish.topic, until)
            if route is None:
                return []
            if found := await self._popped(wish, key, attempts, self._sources(route)):
                return found
            if trio.current_time() >= until:
                return []
            brokers = {queue.broker_name for queue in route.subscribe}
            async with self._waiting.waiter(key, brokers) as waiter:
                if waiter is None:
                    return None
                await waiter.wait(until)
                if waiter.broker_name:
                    found = await self._popped(wish, key, attempts, [waiter.broker_name])
                    waiter.popped = bool(found)
            if found:
                return found

    async def _existing(self, topic: str, until: float) -> Route | None:
        """Return the route of a topic once it exists; None if it does not by `until`. Raises NoRoute if no broker
        would create it."""
        route = await self._route(topic)
        while route.fallback:
            left = until - trio.current_time()
            if left <= 0:
                return None
            await trio.sleep(min(NEW_TOPIC_SECONDS, left))
            self._instance.routes.outdate(topic)
            route = await self._route(topic)
        return route

    def _sources(self, route: Route) -> list[str]:
        """Return the brokers to query, beginning with a different one each time."""
        now = trio.current_time()
        names = sorted({queue.broker_name for queue in route.subscribe})
        names = [name for name in names if self._avoided.get(name, 0.0) <= now] or names
        self._turn += 1
        first = self._turn % max(1, len(names))
        return names[first:] + names[:first]

    async def _popped(self, wish: Wish, key: Key, attempts: int, brokers: Sequence[str]) -> list[LentMessage]:
        """Return the messages of the first broker that has some. Raises StatusError if all refuse to lend any;
        those that do not respond may come back."""
        failures: list[ClientError] = []
        for name in brokers:
            try:
                if found := await self._pop(wish, key, attempts, name):
                    return found
            except ClientError as error:
                if not isinstance(error, (*UNREACHED, NotFound)):
                    failures.append(error)
        if failures and len(failures) == len(brokers):
            raise status_error(failures[0])
        return []

    async def _pop(self, wish: Wish, key: Key, attempts: int, broker_name: str) -> list[LentMessage]:
        queue = MessageQueue(wish.topic, broker_name, ANY_QUEUE)
        header = PopMessageRequestHeader(
            consumer_group=wish.group,
            topic=wish.topic,
            queue_id=ANY_QUEUE,
            max_msg_nums=wish.max_messages,
            invisible_time=wish.invisible_ms,
            poll_time=0,
            born_time=BROKER_CLOCK,
            init_mode=FROM_LAST,
            exp_type=wish.kind,
            exp=wish.text,
            order=key.order,
            attempt_id=wish.attempt_id,
        )
        instance = self._instance
        try:
            address = await lender(instance, wish.topic, broker_name)
            # A reply that nobody awaits would lend messages to no one.
            with trio.CancelScope(shield=True):
                lent = await pop(instance, address, queue, header, timeout=instance.timeout)
        except ClientError as error:
            if isinstance(error, UNREACHED):
                instance.routes.doubt(wish.topic)
                self._avoided[broker_name] = trio.current_time() + AVOIDED_SECONDS
            instance.outages.failed("receiving from", queue, error)
            raise
        return [] if lent is None else await self._lent(wish, attempts, broker_name, lent)

    async def _lent(self, wish: Wish, attempts: int, broker_name: str, lent: Lent) -> list[LentMessage]:
        self._ahead[broker_name] = self.now_ms() - lent.header.pop_time
        _note_plain(lent.messages)
        found = [
            (
                ReceiptHandle.decode(message.properties.pop(P.POP_CK))._replace(
                    log_offset=message.commit_log_offset
                ),
                message,
            )
            for message in lent.messages
        ]
        handles = [handle for handle, _ in found]
        async with self.released_unless_done(wish.group, wish.topic, handles) as left:
            # A cancellation during the shielded pop is raised here, where the messages are released.
            await trio.lowlevel.checkpoint_if_cancelled()
            kept = []
            for handle, message in found:
                if message.reconsume_times < attempts:
                    kept.append((handle, message))
                    continue
                # Java brokers lend forever, so proxies must create dead letters.
                await self.to_dead_letters(wish.group, wish.topic, handle, message.msg_id)
                del left[handle]
            left.clear()
        return kept

    def _is_over(self, handle: ReceiptHandle) -> bool:
        """Return True if the invisible time of a message is over, by the clock of its broker. (Without a message
        from that broker, the difference of the clocks is unknown.)"""
        ahead = self._ahead.get(handle.broker_name)
        return ahead is not None and self.now_ms() - ahead >= handle.pop_time + handle.invisible_time

    async def ack(self, group: str, topic: str, handle: ReceiptHandle) -> bool:
        if self._is_over(handle):
            return False
        await in_task()
        with told():
            address = await self._address(topic, handle.broker_name, Code.INVALID_RECEIPT_HANDLE)
            await acknowledge(self._instance, address, group, topic, handle)
        return True

    async def change(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle | None:
        if self._is_over(handle):
            return None
        with told():
            await self._address(topic, handle.broker_name, Code.INVALID_RECEIPT_HANDLE)
            return await change(self._instance, group, topic, handle, invisible_ms)

    async def release(self, group: str, topic: str, handle: ReceiptHandle, *, counts: bool = False) -> None:
        try:
            await change(self._instance, group, topic, handle, 0, unused=not counts)
        except ClientError as error:  # others receive it once its time is over
            log.info("a message of topic %s was not released for group %s: %s", topic, group, error)

    async def to_dead_letters(self, group: str, topic: str, handle: ReceiptHandle, message_id: str) -> bool:
        if self._is_over(handle):
            return False
        if handle.log_offset < 0:
            raise StatusError(Code.INVALID_RECEIPT_HANDLE, "the handle does not say where its message is")
        header = ConsumerSendMsgBackRequestHeader(
            offset=handle.log_offset,
            group=group,
            delay_level=DEAD_LETTER_LEVEL,
            origin_msg_id=message_id,
            origin_topic=topic,
            max_reconsume_times=0,
        )
        with told():
            address = await self._address(topic, handle.broker_name, Code.INVALID_RECEIPT_HANDLE)
            await self._instance.ask(address, CONSUMER_SEND_MSG_BACK, header, None)
        return await self.ack(group, topic, handle)

    # reading by offsets

    async def _broker_of(self, topic: str, broker_name: str) -> str:
        """Return the broker that a request names, otherwise the only one of the topic. Raises StatusError."""
        if broker_name:
            return broker_name
        names = {queue.broker_name for queue in (await self._instance.route(topic)).subscribe}
        if len(names) != 1:
            raise StatusError(
                Code.BAD_REQUEST, f"topic {topic} is on {len(names)} brokers: name the one of the queue"
            )
        return names.pop()

    async def pull(
        self, caller: Caller, broker_name: str, header: PullMessageRequestHeader, until: float
    ) -> Pulled | None:
        instance = self._instance
        with told():
            name = await self._broker_of(header.topic, broker_name)
            queue = MessageQueue(header.topic, name, header.queue_id)
            waits = max(0.0, until - trio.current_time())
            flags = header.sys_flag | (PullSysFlag.SUSPEND if waits else 0)
            suspended = msgspec.structs.replace(
                header, sys_flag=flags, suspend_timeout_millis=round(waits * 1000), bname=name
            )
            reply = await instance.read_queue(
                queue, PULL_MESSAGE.code, suspended, timeout=instance.timeout + waits, ok=PULL_STATUSES
            )
            status = PULL_STATUSES[reply.code]
            answer = read_answer(PULL_MESSAGE, reply, name)
            messages: list[MessageExt] = []
            following = answer.header.next_begin_offset
            if status is PullStatus.FOUND:
                messages, cut_at = await read_messages(answer.body, name, begin=header.queue_offset)
                _note_plain(messages)
                following = following if cut_at is None else cut_at
        return Pulled(
            _PULLED[status], messages, following, answer.header.min_offset, answer.header.max_offset
        )

    async def ask(
        self, caller: Caller, broker_name: str, operation: Operation[Any, Any, None, None], header: Any
    ) -> Any:
        with told():
            name = await self._broker_of(header.topic, broker_name)
            queue = MessageQueue(header.topic, name, header.queue_id)
            return (await self._instance.ask_queue(queue, operation, header)).header


def _keep(table: dict[str, _Kept], name: str, kept: _Kept) -> None:
    if len(table) >= MOST_KEPT:
        table.clear()
    table[name] = kept


def _note_plain(messages: Iterable[MessageExt]) -> None:
    """Record that the client library has decompressed the bodies, as far as possible."""
    for message in messages:
        msgspec.structs.force_setattr(message, "sys_flag", message.sys_flag & ~COMPRESSED)


def _queue_of_group(group: str, queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
    return queues[queue_of_group(group, len(queues))]


def _stored(result: SendResult, number: int = 0, *, half_at: int = -1) -> Stored:
    return Stored(
        result.message_queue.broker_name,
        result.queue_offset + number,
        ResponseCode(result.status.value),
        half_at,
        result.recall_handle or "",
    )


def _log_offset(result: SendResult) -> int:
    """Return the position at which a broker has stored a message. Raises StatusError if its reply does not
    contain it.
    """
    try:
        return parse_offset_msg_id(result.offset_msg_id)[2]
    except CodecError as error:
        raise StatusError(Code.INTERNAL_SERVER_ERROR, str(error)) from None
