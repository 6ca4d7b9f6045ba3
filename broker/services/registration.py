"""Registration of a broker at every name server (Java `BrokerOuterAPI`,
`BrokerController.registerBrokerAll`).

The broker registers at its start, every `registerNameServerPeriod` (30 s, limited to 10 to 60 s) and when
topics change: at all name servers at once, with a timeout of `registerBrokerTimeoutMills` (6 s) each. With
`forceRegister=false`, the periodic registration skips name servers that have the broker's data version. A
name server that is down is logged once and retried every second, unlike in Java.

A slave whose master is unknown to all name servers registers again after 1, 2, 4, … s, because both may just
have started.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import trio
from msgspec.structs import replace

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.errors import BrokerError, PeerUnreachable
from rmqcli.broker.net.handling import command_of
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.net.peers import Peers
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.supervisor import Supervisor
from rmqcli.broker.tables.topics import READ_WRITE
from rmqcli.codec.bodies.config import TopicConfig, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.registration import RegisterBrokerBody
from rmqcli.codec.codes import MASTER_ID, ResponseCode
from rmqcli.codec.core.hashing import crc32
from rmqcli.codec.errors import CodecError
from rmqcli.codec.fastjson import dumps_in_steps
from rmqcli.codec.headers.routes import (
    QueryDataVersionRequestHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rmqcli.codec.ids import join_address, split_address, split_addresses
from rmqcli.codec.operations.name_server import QUERY_DATA_VERSION, REGISTER_BROKER, UNREGISTER_BROKER
from rmqcli.codec.operations.operation import Answer, Operation
from rmqcli.codec.remoting.signature import Signer

Identified = TypeVar(
    "Identified", RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader, QueryDataVersionRequestHeader
)

RequestT = TypeVar("RequestT")
RequestBodyT = TypeVar("RequestBodyT")
ReplyT = TypeVar("ReplyT")
ReplyBodyT = TypeVar("ReplyBodyT")

_log = logging.getLogger("rmqcli.broker.services.registration")

PERIOD_MS = (10_000, 60_000)
_FIRST_SEARCH = 1.0
"""Seconds until a slave searches for its master for the second time."""
_RETRY = 1.0
"""Seconds between attempts to connect to a name server that is down. A period would be a long time without
routes when both have just started."""


class Registration:
    """Registers the broker at `address` ("ip:port").

    `config` returns the current configuration, `topics` all current topics. `on_order_topics` receives the
    order topics of a name server: topic to "broker:queues;…". The connections to the name servers are open
    while `peers` runs, over TLS with the context that `tls` returns; `signer` signs the requests, which a
    name server of RocketMQ does not check.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        address: str,
        topics: Callable[[], TopicConfigSerializeWrapper],
        on_order_topics: Callable[[Mapping[str, str]], None] | None = None,
        network: Network = TCP,
        supervisor: Supervisor | None = None,
        turns: Turns | None = None,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        signer: Signer | None = None,
    ) -> None:
        self._config = config
        self._address = address
        self._topics = topics
        self._on_order_topics = on_order_topics
        self.peers = Peers("registration", network=network, supervisor=supervisor, tls=tls, signer=signer)
        self._turns = turns or Turns()
        self._down: set[str] = set()
        self._unreachable: set[str] = set()
        self._complete: set[str] = set()
        """Name servers that have had all topics since they last failed."""
        self.on_master: Callable[[RegisterBrokerResponseHeader], None] | None = None
        """Called with each reply to a registration, which names the master of a slave."""
        self._is_master_known = False

    async def run(self) -> None:
        """Register at each period until cancelled."""
        search = _FIRST_SEARCH
        while True:
            is_searching = self.on_master is not None and not self._is_master_known
            wait = min(self._period_seconds(), search) if is_searching else self._period_seconds()
            search = search * 2 if is_searching else _FIRST_SEARCH
            await self._sleep(wait)
            self._is_master_known = False
            await self._refresh()

    async def _sleep(self, seconds: float) -> None:
        """Wait; meanwhile register at name servers that could not be reached."""
        end = trio.current_time() + seconds
        while (left := end - trio.current_time()) > 0:
            await trio.sleep(min(left, _RETRY) if self._unreachable else left)
            if self._unreachable:
                await self._at(self._unreachable, partial(self._register_if_changed, self._topics()))

    async def register(self, wrapper: TopicConfigSerializeWrapper | None = None) -> None:
        """Register all topics, or the changed ones of `wrapper`. Failures are logged."""
        if wrapper is None:
            await self._everywhere(partial(self._register_at, *await self._registration(self._topics())))
        else:
            await self._everywhere(partial(self._register_changes, *await self._registration(wrapper)))

    async def unregister(self) -> None:
        """Unregister the broker at every name server. Failures are logged."""
        header = self._identity(UnRegisterBrokerRequestHeader)
        await self._everywhere(partial(self._request, UNREGISTER_BROKER, header, None))

    async def _refresh(self) -> None:
        """Do the periodic registration."""
        if self._config().force_register or self.on_master is not None:
            await self.register()
            return
        wrapper = self._topics()
        await self._everywhere(partial(self._register_if_changed, wrapper))

    async def _everywhere(self, action: Callable[[str], Awaitable[object]]) -> None:
        addresses = split_addresses(self._config().namesrv_addr or "")
        self._unreachable.intersection_update(addresses)
        await self._at(addresses, action)

    async def _at(self, addresses: Iterable[str], action: Callable[[str], Awaitable[object]]) -> None:
        if not self.peers.is_running:
            return
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(self._attempt, action, address)

    async def _attempt(self, action: Callable[[str], Awaitable[object]], address: str) -> None:
        try:
            await action(address)
        except (BrokerError, CodecError) as error:
            if address not in self._down:
                _log.warning("name server %s: %s", address, error)
            self._down.add(address)
            self._complete.discard(address)
            if isinstance(error, PeerUnreachable):
                self._unreachable.add(address)
            else:
                self._unreachable.discard(address)
            return
        if address in self._down:
            _log.info("name server %s: registered again", address)
        self._down.discard(address)
        self._unreachable.discard(address)

    async def _register_at(self, header: RegisterBrokerRequestHeader, body: bytes, address: str) -> None:
        answer = await self._request(REGISTER_BROKER, header, body, address)
        self._complete.add(address)
        if self.on_master is not None:
            self._is_master_known |= answer.header.master_addr is not None
            self.on_master(answer.header)
        if answer.body is not None and self._on_order_topics is not None:
            self._on_order_topics(answer.body.table)

    async def _register_changes(self, header: RegisterBrokerRequestHeader, body: bytes, address: str) -> None:
        # A name server of 4.9 would take the changed topics to be all topics, if they were the first that it
        # gets: their version is that of all, and it does not read registrations with a version that it knows.
        if address not in self._complete:
            header, body = await self._registration(self._topics())
        await self._register_at(header, body, address)

    async def _register_if_changed(self, wrapper: TopicConfigSerializeWrapper, address: str) -> None:
        header = self._identity(QueryDataVersionRequestHeader)
        answer = await self._request(QUERY_DATA_VERSION, header, wrapper.data_version, address)
        if answer.header.changed:
            await self._register_at(*await self._registration(wrapper), address)

    async def _request(
        self,
        operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
        header: RequestT,
        body: RequestBodyT,
        address: str,
    ) -> Answer[ReplyT, ReplyBodyT]:
        timeout = self._config().register_broker_timeout_mills / 1000
        reply = await self.peers.request(address, command_of(operation, header, body), timeout)
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerError(f"code {operation.code} refused with {reply.code}: {reply.remark}")
        return operation.decode_reply(reply)

    async def _registration(
        self, wrapper: TopicConfigSerializeWrapper
    ) -> tuple[RegisterBrokerRequestHeader, bytes]:
        body = await self._body(wrapper)
        header = replace(
            self._identity(RegisterBrokerRequestHeader),
            ha_server_addr=self._ha_address(),
            compressed=self._config().compressed_register,
            body_crc32=crc32(body),
        )
        return header, body

    async def _body(self, wrapper: TopicConfigSerializeWrapper) -> bytes:
        permission = self._config().broker_permission
        if permission & READ_WRITE != READ_WRITE:
            limited = {
                name: _limited(topic, permission) for name, topic in wrapper.topic_config_table.items()
            }
            wrapper = replace(wrapper, topic_config_table=limited)
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
        if self._config().compressed_register:
            return body.encode(compressed=True)
        return await self._turns.run(dumps_in_steps(body))

    def _identity(self, kind: type[Identified]) -> Identified:
        config = self._config()
        return kind(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            # In Java, a master has this id, whatever broker.conf says.
            broker_id=config.broker_id if config.broker_role == "SLAVE" else MASTER_ID,
        )

    def _ha_address(self) -> str:
        config = self._config()
        return join_address(config.broker_ip2 or split_address(self._address)[0], config.ha_listen_port)

    def _period_seconds(self) -> float:
        low, high = PERIOD_MS
        return min(max(self._config().register_name_server_period, low), high) / 1000


def _limited(topic: TopicConfig, permission: int) -> TopicConfig:
    """Return a topic in the form in which a broker without read or write permission registers it."""
    return TopicConfig(
        topic_name=topic.topic_name,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=permission,
    )


# Registers new and changed topics at the name servers at once, not at the next periodic registration.
#
# Changes that arrive during one registration go together into the next. The reply to the request that created a
# topic waits until the name servers know the topic, at most MAX_WAIT_SECONDS, so that its client finds the
# route.

MAX_WAIT_SECONDS = 2.0


class Announcer:
    """Registers changed topics: calls `register` (None without name servers) with them, or with None for all
    topics."""

    def __init__(self, register: Callable[[Sequence[TopicConfig] | None], Awaitable[None]] | None) -> None:
        self._register = register
        self._pending: dict[str, TopicConfig] = {}
        self._all = False
        self.asked = 0
        """The number of calls of `announce`. A caller can compare it to find out whether its work announced
        topics."""
        self._done = 0
        self._wake = trio.Event()
        self._progress = trio.Event()

    def announce(self, configs: Sequence[TopicConfig]) -> None:
        """Request the registration of topics; of all topics if `configs` is empty."""
        self._all = self._all or not configs
        self._pending.update((config.topic_name, config) for config in configs)
        self.asked += 1
        self._wake.set()

    async def settled(self) -> None:
        """Wait until everything announced so far is registered, but at most MAX_WAIT_SECONDS."""
        if self._register is None:
            return
        wanted = self.asked
        with trio.move_on_after(MAX_WAIT_SECONDS):
            while self._done < wanted:
                await self._progress.wait()

    async def run(self) -> None:
        """Register until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            asked = self.asked
            await self._register_pending()
            self._done = asked
            self._progress.set()
            self._progress = trio.Event()

    async def _register_pending(self) -> None:
        everything, pending = self._all, self._pending
        self._all, self._pending = False, {}
        try:
            if self._register is not None:
                await self._register(None if everything else list(pending.values()))
        except Exception:  # the next attempt must include the topics of this one
            self._all, self._pending = everything or self._all, pending | self._pending
            self._wake.set()
            raise
