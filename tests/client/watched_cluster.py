"""The in-memory cluster of this project, with its requests and tables open to a test, on the virtual clock.

`trouble` (request code → function) comes before the brokers and the name server: its result is the reply, None
passes the request on, LOST drops it.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from rmqcli.broker.config import BrokerConfig, NamesrvConfig
from rmqcli.broker.namesrv.node import open_name_server
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.node import BrokerNode, open_broker
from rmqcli.broker.services.clients import steady_ms
from rmqcli.broker.store.values import StoreMessage
from rmqcli.broker.supervisor import Service, Supervisor
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.in_memory import (
    HOST,
    LOST,
    Lost,
    MemoryListener,
    MemoryNetwork,
    OnRequest,
)
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.codes import PullSysFlag, RequestCode
from rmqcli.codec.ids import pack_host
from rmqcli.codec.message import MessageExt, PropertyName
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand

EPOCH = 1_700_000_000_000
NAMESRV = f"{HOST}:9876"
FIRST_PORT, PORT_STEP = 10911, 10
PRODUCER = pack_host("10.0.0.1", 10911)
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 4 << 20,
    "mapped_file_size_consume_queue": 30_000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
    "file_reserved_time": 0,
    "auto_create_topic_enable": False,
    "enable_property_filter": True,
    "max_transfer_bytes_on_message_in_memory": 4 << 20,
    # each tick of a service costs real time when a test passes hours of the virtual clock
    "flush_interval_commit_log": 10_000,
    "flush_interval_consume_queue": 10_000,
}
FOR_A_DAY: dict[str, Any] = {
    "flush_interval_commit_log": 600_000,
    "flush_interval_consume_queue": 600_000,
    "flush_consumer_offset_interval": 600_000,
    "flush_delay_offset_interval": 600_000,
    "clean_resource_interval": 600_000,
    "transaction_check_interval": 600_000,
    "register_name_server_period": 60_000,
}
"""Intervals for tests that last hours; see also `Sparing`."""
Trouble = Callable[[RemotingCommand], RemotingCommand | Lost | None]


def now_ms() -> int:
    return EPOCH + round(trio.current_time() * 1000)


async def in_place(function: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
    """Replaces worker threads, for which a virtual clock does not wait."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


class Sparing(Supervisor):
    """Leaves out services that sample or look around every second or every ten: no client notices."""

    LEFT_OUT = frozenset({"store rates", "statistics", "prepared files", "residency", "save filters"})

    async def run_once(self, name: str, service: Service) -> None:
        if name in self.LEFT_OUT:
            await trio.sleep_forever()
        await service()


class ListedNetwork(MemoryNetwork):
    """Lists its listeners."""

    def __init__(self, nursery: trio.Nursery, on_request: OnRequest | None) -> None:
        super().__init__(nursery, on_request)
        self.listeners: list[MemoryListener] = []

    def listen(self, host: str, port: int, backlog: int = 0) -> MemoryListener:
        self.listeners.append(super().listen(host, port, backlog))
        return self.listeners[-1]


class WatchedCluster:
    """A name server and brokers that all have the same topics. Use `open_cluster`.

    `asked` holds the requests of clients, with their times. An unwatched cluster has neither these nor
    `trouble`: requests cost less.
    """

    def __init__(self, nursery: trio.Nursery, *, watched: bool = True) -> None:
        self.network = ListedNetwork(nursery, self._on_request if watched else None)
        self.nodes: dict[str, BrokerNode] = {}
        self.asked: list[tuple[float, RemotingCommand]] = []
        self.commits: list[tuple[str, MessageQueue, int]] = []
        self.trouble: dict[int, Trouble] = {}
        self.silent = False
        self.open_stream: Callable[[str, int], Any] = self.network.open_stream

    # --- requests

    async def _on_request(self, address: str, command: RemotingCommand) -> RemotingCommand | Lost | None:
        if address == NAMESRV and command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return None
        self.asked.append((trio.current_time(), command))
        if self.silent:
            return LOST
        trouble = self.trouble.get(command.code)
        decision = None if trouble is None else trouble(command)
        if decision is None:
            self._note_commit(address, command)
        return decision

    def _note_commit(self, address: str, command: RemotingCommand) -> None:
        fields = command.ext_fields or {}
        pulls = command.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET or (
            pulls and int(fields["sysFlag"]) & PullSysFlag.COMMIT_OFFSET
        ):
            broker = next(name for name, node in self.nodes.items() if node.address == address)
            queue = MessageQueue(fields["topic"], broker, int(fields["queueId"]))
            self.commits.append((fields["consumerGroup"], queue, int(fields["commitOffset"])))

    def count(self, code: int) -> int:
        return sum(command.code == code for _, command in self.asked)

    def times(self, code: int) -> list[float]:
        return [at for at, command in self.asked if command.code == code]

    def fields(self, code: int) -> list[dict[str, str]]:
        return [command.ext_fields or {} for _, command in self.asked if command.code == code]

    # --- messages

    def queue(self, topic: str, number: int = 0, broker: str = "a") -> MessageQueue:
        return MessageQueue(topic, broker, number)

    def put(
        self,
        queue: MessageQueue,
        body: bytes,
        properties: Mapping[str, str] | None = None,
        reconsume_times: int = 0,
    ) -> None:
        self.put_many(queue, [body], properties, reconsume_times)

    def put_many(
        self,
        queue: MessageQueue,
        bodies: Sequence[bytes],
        properties: Mapping[str, str] | None = None,
        reconsume_times: int = 0,
    ) -> None:
        """Stores messages at once."""
        store = self.nodes[queue.broker_name].store
        for number, body in enumerate(bodies, store.search.max_offset(queue.topic, queue.queue_id)):
            named = {PropertyName.UNIQ_KEY: f"{queue}/{number}", **(properties or {})}
            message = StoreMessage(
                topic=queue.topic,
                queue_id=queue.queue_id,
                body=body,
                properties=named,
                properties_text=encode_properties(named),
                born_timestamp=now_ms(),
                born_host=PRODUCER,
                reconsume_times=reconsume_times,
            )
            stored = store.writer.append(message)
            assert stored.queue_offset == number, stored

    def stored(self, queue: MessageQueue) -> list[MessageExt]:
        return decode_records(b"".join(self.records(queue)))

    def records(self, queue: MessageQueue) -> list[bytes]:
        """The stored bytes of each message of a queue."""
        store = self.nodes[queue.broker_name].store
        offsets = range(
            store.search.min_offset(queue.topic, queue.queue_id),
            store.search.max_offset(queue.topic, queue.queue_id),
        )
        return [
            b"".join(map(bytes, store.reader.get(queue.topic, queue.queue_id, offset, 1).views))
            for offset in offsets
        ]

    def bodies(self, topic: str) -> list[bytes]:
        return [
            message.body
            for name, node in self.nodes.items()
            for number in node.store.queue_ids(topic)
            for message in self.stored(MessageQueue(topic, name, number))
        ]

    async def expire(self, broker: str = "a") -> None:
        """Removes every message stored until now, as retention does."""
        store = self.nodes[broker].store
        end = store.commit_log_max_offset
        while store.commit_log_min_offset < end:
            self.put_many(MessageQueue("Filler", broker, 0), [bytes(1 << 20)] * 4)
            await store.retention.delete_expired_files()

    # --- tables

    def create_topic(self, topic: str, queues: int) -> None:
        """Creates a topic on every broker, or changes its number of queues."""
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        for node in self.nodes.values():
            node.context.topics.put(config)
            node.context.topics_changed([config])

    def committed(self, group: str, topic: str, broker: str = "a") -> dict[int, int]:
        return dict(self.nodes[broker].context.offsets.queues(group, topic))

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        offsets = self.nodes[queue.broker_name].context.offsets
        offsets.commit(group, queue.topic, queue.queue_id, offset)

    def members(self, group: str, broker: str = "a") -> list[str]:
        """The client ids that the broker knows."""
        known = self.nodes[broker].context.consumers.get(group)
        return known.client_ids() if known else []

    def lock(self, group: str, client_id: str, *queues: MessageQueue) -> list[MessageQueue]:
        """Takes the locks of queues as another client; returns those that it holds now."""
        return [
            queue
            for queue in queues
            if self.nodes[queue.broker_name].context.locks.lock(group, client_id, [queue], steady_ms())
        ]

    def locked(self, group: str, *queues: MessageQueue) -> list[MessageQueue]:
        """Returns those that a client holds the lock of."""
        free = self.lock(group, "nobody", *queues)
        for queue in free:
            self.nodes[queue.broker_name].context.locks.unlock(group, "nobody", [queue])
        return [queue for queue in queues if queue not in free]

    # --- connections

    def sessions(self) -> set[Session]:
        """The open connections, as name server and brokers see them."""
        servers = [one.server for one in self.network.listeners if isinstance(one.server, Server)]
        return {session for server in servers for session in server.sessions}

    def push(self, group: str, command: RemotingCommand, broker: str = "a") -> None:
        """Sends a one-way request to every member of a group."""
        known = self.nodes[broker].context.consumers.get(group)
        for channel in list(known.channels) if known else ():
            channel.oneway(command)

    async def request(self, group: str, command: RemotingCommand, broker: str = "a") -> list[RemotingCommand]:
        """Sends a request to every member of a group, one after the other; returns their replies."""
        known = self.nodes[broker].context.consumers.get(group)
        return [await channel.request(command, 15) for channel in list(known.channels)] if known else []

    def cut(self) -> None:
        """Breaks all connections to the brokers, as brokers that restart do."""
        for node in self.nodes.values():
            host, _, port = node.address.rpartition(":")
            self.network.cut(host, int(port), 0)


@asynccontextmanager
async def open_cluster(
    topics: Mapping[str, int], brokers: Sequence[str] = ("a",), *, long: bool = False, **settings: Any
) -> AsyncIterator[WatchedCluster]:
    """A name server and the named brokers with `{topic: queues}` inside the block, on addresses of their own.

    `long`: hours of the virtual clock cost less, with an unwatched cluster that does only what clients notice.
    """
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        cluster = WatchedCluster(nursery, watched=not long)
        surroundings: dict[str, Any] = {
            "supervisor": Sparing(),
            "now_ms": now_ms,
            "network": cluster.network,
            "in_thread": in_place,
        }
        names = NamesrvConfig(kv_config_path=None, config_store_path=None)
        await stack.enter_async_context(
            open_name_server(names, host=HOST, port=9876, disk=SimulatedDisk(now_ms=now_ms), **surroundings)
        )
        for number, name in enumerate(brokers):
            config = BrokerConfig(
                **{
                    **SETTINGS,
                    **(FOR_A_DAY if long else {}),
                    **settings,
                    "broker_name": name,
                    "namesrv_addr": NAMESRV,
                    "bind_address": HOST,
                    "broker_ip1": HOST,
                    "listen_port": FIRST_PORT + number * PORT_STEP,
                    "store_path_root_dir": str(Path("/", name)),
                }
            )
            cluster.nodes[name] = await stack.enter_async_context(
                open_broker(
                    config,
                    rng=random.Random(number),
                    disk=SimulatedDisk(now_ms=now_ms, loses_power=False),
                    **surroundings,
                )
            )
        for topic, queues in topics.items():
            cluster.create_topic(topic, queues)
        for node in cluster.nodes.values():
            await node.context.topics_known()
        yield cluster
        await stack.aclose()
        nursery.cancel_scope.cancel()
