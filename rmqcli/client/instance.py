"""The state that clients of a process can share: identity, connections, name servers, routes, and a nursery.

An instance is entered once (`async with`). A client that is not given one creates its own. Leaving the
instance ends every task and connection. An exception of the block is raised unchanged, never wrapped in a
group.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, TypeVar

import trio

from rmqcli.client.errors import (
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    InvalidRequest,
    NotFound,
    refusal,
)
from rmqcli.client.heartbeats import Heartbeats
from rmqcli.client.identity import DEFAULT_NAME, Namespace, client_id
from rmqcli.client.outages import Outages
from rmqcli.client.processor import ClientRemotingProcessor
from rmqcli.client.routing.routes import REFRESH_INTERVAL, NameServers, Route, Routes
from rmqcli.client.wire.addresses import AddressMap, instance_of, local_ip, name_servers
from rmqcli.client.wire.pool import Pool
from rmqcli.client.wire.requests import answer_of, command, request_of
from rmqcli.client.wire.streams import OpenStream, open_tcp
from rmqcli.codec.codes import MASTER_ID, RequestCode, ResponseCode
from rmqcli.codec.headers.base import Header, to_ext
from rmqcli.codec.ids import DEFAULT_NAMESRV
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand

if TYPE_CHECKING:
    from rmqcli.client.hooks import ClientHook
    from rmqcli.client.wire.credentials import Credentials
    from rmqcli.client.wire.tls import Tls
    from rmqcli.codec.operations.operation import Answer, Operation

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
RequestBodyT = TypeVar("RequestBodyT")
ReplyBodyT = TypeVar("ReplyBodyT")

_FOUND_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
_counter = itertools.count()


def _clock_of_run() -> Callable[[], float]:
    """Return the clock of the trio run. Raises InvalidRequest outside a trio run, such as under asyncio."""
    try:
        return trio.lowlevel.current_clock().current_time
    except RuntimeError:
        raise InvalidRequest(
            "rmqcli.client needs trio: run it with trio.run(…), or use rmqcli.client.aio with asyncio and "
            "rmqcli.client.sync with threads"
        ) from None


def _current_time() -> float:
    return _clock_of_run()()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class InstanceOptions(TypedDict, total=False):
    """Options of every client (Java `ClientConfig`).

    `timeout`: seconds for a request, including the connection. `instance_name` distinguishes the members of a
    group on one host; the default is unique, or DEFAULT for a broadcasting consumer. `namespace` prefixes the
    names of topics and groups (see Namespace); None derives it from an address of the form
    `http://MQ_INST_….host:port`, and "" means no namespace. `unit_name` is part of the client id; `unit_mode`
    is sent to brokers. `vip_channel`: sends, offsets and other short requests (VIP_CODES) go to the broker's
    port minus two, on which Java brokers listen; brokers of this project do not. `address_map`: replaces
    addresses to connect to (see AddressMap). `credentials`: the account that signs every request; None signs
    none. `tls`: all connections use TLS (see Tls, or pass a context of Python's ssl). `hook` observes sends
    and deliveries (see ClientHook).
    """

    namesrv: str | Iterable[str]
    timeout: float
    tls: Tls | ssl.SSLContext | None
    open_stream: OpenStream | None
    default_queues: int
    instance_name: str | None
    unit_name: str | None
    unit_mode: bool
    namespace: str | None
    vip_channel: bool
    address_map: Mapping[str, str] | None
    credentials: Credentials | None
    hook: ClientHook | None
    now_ms: Callable[[], int]
    rng: random.Random


class ClientInstance:
    """The shared state (Java `MQClientInstance`). `client_id`: Java's `ip@pid#nanos`, or `ip@name[@unit]`.

    ```python
    async with ClientInstance() as instance:
        async with Producer("shop", instance=instance) as shop, Admin(instance=instance) as admin:
            await shop.send(Message.of("orders", b"hello"))
            print(await admin.topics.names())
    ```
    """

    def __init__(
        self,
        namesrv: str | Iterable[str] = DEFAULT_NAMESRV,
        *,
        timeout: float = 3.0,
        tls: Tls | ssl.SSLContext | None = None,
        open_stream: OpenStream | None = None,
        default_queues: int = 4,
        instance_name: str | None = None,
        unit_name: str | None = None,
        unit_mode: bool = False,
        namespace: str | None = None,
        vip_channel: bool = False,
        address_map: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
        hook: ClientHook | None = None,
        now_ms: Callable[[], int] = _now_ms,
        rng: random.Random | None = None,
    ) -> None:
        self.timeout = timeout
        self.hook = hook
        self.now_ms = now_ms
        self.clock: Callable[[], float] = _current_time
        self.random = rng or random.Random()
        self.ip = local_ip()
        self.unit_mode = unit_mode
        addresses = [namesrv] if isinstance(namesrv, str) else list(namesrv)
        self.address_namespace = instance_of(addresses)
        self.namespace = Namespace(self.address_namespace if namespace is None else namespace)
        self._instance_name, self._unit_name = instance_name, unit_name
        # The counter separates instances that are created within one tick of the clock.
        own_name = f"{os.getpid()}#{time.monotonic_ns() + next(_counter)}"
        self.client_id = client_id(self.ip, own_name if instance_name is None else instance_name, unit_name)
        self.requests = ClientRemotingProcessor()
        self.default_queues = default_queues
        self._entered = False
        self._nursery: trio.Nursery | None = None
        self.heartbeats = Heartbeats(self)
        self.address_map = AddressMap(address_map)
        opening = open_stream or open_tcp
        if tls is not None:
            from rmqcli.client.wire.tls import TlsStreams

            opening = TlsStreams(tls, opening)
        self.pool = Pool(
            lambda: self.nursery,
            opening,
            self.requests.process,
            on_open=self.heartbeats.connected,
            vip=vip_channel,
            address_map=self.address_map,
            signer=None if credentials is None else credentials.signer(),
        )
        self.name_servers = NameServers(name_servers(addresses), self.pool)
        self.routes = Routes(self.name_servers, default_queues=default_queues)
        self.outages = Outages()

    async def __aenter__(self) -> Self:
        if self._entered:
            raise InvalidRequest("a client instance is entered once")
        self.clock = _clock_of_run()  # trio.current_time looks it up each time
        self._entered = True
        self._manager = trio.open_nursery()
        outer = await self._manager.__aenter__()
        # A cancellation here would leave the outer nursery open: `__aexit__` is called only after a return.
        with trio.CancelScope(shield=True):
            self._nursery = inner = await outer.start(self._shelter)
        inner.start_soon(self._refresh_routes, name="route refresh")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # This needs the connections, which end with the nursery.
        await self.heartbeats.leave_all()
        self.nursery.cancel_scope.cancel()
        self._nursery = None
        # A Cancelled may come from the nursery, if one of our tasks failed. Any other exception comes from
        # the block and must not reach the nursery, which would wrap it in a group.
        if isinstance(error, trio.Cancelled):
            await self._manager.__aexit__(kind, error, trace)
        else:
            await self._manager.__aexit__(None, None, None)

    @property
    def nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise InvalidRequest("a client works only inside its `async with` block")
        return self._nursery

    async def _shelter(
        self, *, task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep tasks and connections running in a cancelled block, since leaving it sends requests to
        brokers.
        """
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                task_status.started(nursery)
                await trio.sleep_forever()

    @property
    def lasting_id(self) -> str:
        """The client id that the next process will also have, for offset files.

        The default name is DEFAULT.
        """
        name = DEFAULT_NAME if self._instance_name is None else self._instance_name
        return client_id(self.ip, name, self._unit_name)

    def keep_name(self) -> None:
        self.client_id = self.lasting_id

    def start(self, function: Callable[[], Awaitable[None]], name: str) -> trio.CancelScope:
        """Start a background task and return a scope that cancels it."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await function()

        self.nursery.start_soon(run, name=name)
        return scope

    def _limit(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout

    async def call(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        ok: Iterable[int] | None = (ResponseCode.SUCCESS,),
    ) -> RemotingCommand:
        """Return the reply of a broker. Raises BrokerRefused if its code is not in `ok` (None: any code)."""
        ext = to_ext(header) if isinstance(header, Header) else None if header is None else dict(header)
        reply = await self.pool.request(address, command(code, ext, body), self._limit(timeout))
        if ok is not None and reply.code not in ok:
            raise refusal(reply.code, reply.remark, address, code)
        return reply

    async def ask(
        self,
        address: str,
        operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
        header: RequestT,
        body: RequestBodyT,
        *,
        timeout: float | None = None,
    ) -> Answer[ReplyT, ReplyBodyT]:
        """Return the typed reply, with None for a header or body that the operation does not have.

        Raises BrokerRefused for an error code, UnexpectedReply for a reply that cannot be decoded, and the
        errors of `Link.request`.
        """
        request = request_of(operation, header, body)
        reply = await self.pool.request(address, request, self._limit(timeout))
        return answer_of(operation, reply, address)

    async def ask_name_server(
        self, operation: Operation[RequestT, ReplyT, None, ReplyBodyT], header: RequestT
    ) -> Answer[ReplyT, ReplyBodyT]:
        """Like `ask`, for the name server in use."""
        reply = await self.name_servers.request(request_of(operation, header, None), self.timeout)
        return answer_of(operation, reply, self.name_servers.current)

    async def ask_queue(
        self, queue: MessageQueue, operation: Operation[RequestT, ReplyT, None, ReplyBodyT], header: RequestT
    ) -> Answer[ReplyT, ReplyBodyT]:
        """Like `ask`, for the broker of a queue, or for a slave if the master cannot be reached."""
        ext, _ = operation.encode_request(header, None)
        reply = await self.read_queue(queue, operation.code, ext or {})
        return answer_of(operation, reply, queue.broker_name)

    async def find_in_queue(
        self,
        queue: MessageQueue,
        operation: Operation[RequestT, ReplyT, None, ReplyBodyT],
        header: RequestT,
        extra: Mapping[str, str] | None = None,
    ) -> Answer[ReplyT, ReplyBodyT] | None:
        """Like `ask_queue`, but return None for QUERY_NOT_FOUND. `extra` is added to the ext fields."""
        ext, _ = operation.encode_request(header, None)
        reply = await self.read_queue(
            queue, operation.code, {**(ext or {}), **(extra or {})}, ok=_FOUND_OR_NOT
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return answer_of(operation, reply, queue.broker_name)

    async def send_oneway(
        self,
        address: str,
        operation: Operation[RequestT, ReplyT, None, ReplyBodyT],
        header: RequestT,
        *,
        timeout: float | None = None,
        remark: str | None = None,
    ) -> None:
        """Send a request that gets no reply."""
        request = request_of(operation, header, None)
        request.remark = remark
        await self.pool.oneway(address, request, self._limit(timeout))

    async def route(self, topic: str, *, create: bool = False, timeout: float | None = None) -> Route:
        """Return the route of a topic, from the cache if possible."""
        return await self.routes.find(topic, self._limit(timeout), create=create)

    async def broker_addresses(self, queue: MessageQueue, *, prefer: int = MASTER_ID) -> list[str]:
        """Return the addresses of the broker of `queue`: the preferred id, then the master, then slaves."""
        if self.routes.is_doubtful(queue.topic):
            with contextlib.suppress(ClientError):  # the known route may still work
                await self.route(queue.topic)
        table = self.routes.brokers.get(queue.broker_name)
        if table is None:
            table = (await self.route(queue.topic)).brokers.get(queue.broker_name)
        if not table:
            raise self.not_in_route(f"topic {queue.topic} has no queue on broker {queue.broker_name}")
        ids = sorted(table, key=lambda broker_id: (broker_id != prefer, broker_id))
        return [table[broker_id] for broker_id in ids]

    def not_in_route(self, remark: str) -> NotFound:
        """Return the error for something that a topic's route lacks, although no server has reported it."""
        return NotFound(
            ResponseCode.QUERY_NOT_FOUND,
            remark,
            self.name_servers.current,
            RequestCode.GET_ROUTEINFO_BY_TOPIC.name,
            concluded=True,
        )

    async def read_queue(
        self,
        queue: MessageQueue,
        code: int,
        header: Header | Mapping[str, str],
        *,
        timeout: float | None = None,
        prefer: int = MASTER_ID,
        ok: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> RemotingCommand:
        """Return the reply of the broker of a queue, or of a slave if the master cannot be reached."""
        addresses = await self.broker_addresses(queue, prefer=prefer)
        while True:
            try:
                return await self.call(addresses.pop(0), code, header, timeout=timeout, ok=ok)
            except (ConnectionFailed, ConnectionLost):
                self.routes.doubt(queue.topic)
                if not addresses:
                    raise

    async def _refresh_routes(self) -> None:
        while True:
            await trio.sleep(REFRESH_INTERVAL)
            await self.routes.refresh(self.timeout)


class Client:
    """Base of all clients: creates an instance, or shares one that is already entered.

    Subclasses override `_open` and `_close`, which run inside the instance; `_close` also runs after a failed
    `_open`.
    """

    def __init__(self, instance: ClientInstance | None, options: InstanceOptions) -> None:
        self._owns = instance is None
        self.instance = instance or ClientInstance(**options)

    async def __aenter__(self) -> Self:
        if self._owns:
            await self.instance.__aenter__()
        try:
            await self._open()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close(error)
        except BaseException as failure:
            await self._release(failure)
            raise
        await self._release(error)

    async def _release(self, error: BaseException | None) -> None:
        if self._owns:
            await self.instance.__aexit__(None if error is None else type(error), error, None)

    async def _open(self) -> None:
        return

    async def _close(self, error: BaseException | None) -> None:
        return
