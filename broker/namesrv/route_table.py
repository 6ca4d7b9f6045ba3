"""The brokers and topics that a name server knows (Java `RouteInfoManager`), without I/O, clock or network.

Five tables: topic → broker name → queue data; broker name → addresses by id; cluster → broker names; address
→ the registration that keeps it alive; address → filter servers. Arguments and results are frozen values or
copies. Times are milliseconds of the caller's clock. The owner of a registration is a hashable value, the
connection that it came over; a registration ends with its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from codec.bodies.config import DataVersion, TopicConfig
from codec.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from codec.codes import MASTER_ID, Perm


class Broker(NamedTuple):
    """One process of a broker name, as it registers."""

    cluster: str
    name: str
    id: int
    address: str


class Registered(NamedTuple):
    """The master as reported to a slave; None for a master, or while no master is known."""

    master_address: str | None = None
    ha_server_address: str | None = None


@dataclass(slots=True)
class LiveBroker:
    """A registration, which keeps one broker address alive."""

    last_update_ms: int
    data_version: DataVersion
    owner: Hashable
    ha_server_address: str


@dataclass(slots=True)
class _Group:
    """The processes of one broker name."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)

    def data(self, name: str) -> BrokerData:
        return BrokerData(
            cluster=self.cluster, broker_name=name, broker_addrs=dict(sorted(self.addresses.items()))
        )


class RouteTable:
    """The tables of one name server."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._brokers: dict[str, _Group] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._live: dict[str, LiveBroker] = {}
        self._filter_servers: dict[str, list[str]] = {}

    # registration

    def register(
        self,
        broker: Broker,
        live: LiveBroker,
        topics: Iterable[TopicConfig],
        filter_servers: list[str] | None = None,
    ) -> Registered:
        """Adds or renews a registration.

        Only the topics of a master count, and only with a new data version; those that it does not name stay.
        """
        steps = self.registering(broker, live, topics, filter_servers)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                registered: Registered = end.value
                return registered

    def registering(
        self,
        broker: Broker,
        live: LiveBroker,
        topics: Iterable[TopicConfig],
        filter_servers: list[str] | None = None,
    ) -> Generator[None, None, Registered]:
        """As `register`, in steps of one topic."""
        self._clusters.setdefault(broker.cluster, {})[broker.name] = None
        group = self._brokers.setdefault(broker.name, _Group(broker.cluster))
        first = self._put_address(group, broker)
        if broker.id == MASTER_ID and (first or self.is_changed(broker.address, live.data_version)):
            for topic in topics:
                self._put_topic(broker.name, topic)
                yield
        self._live[broker.address] = live
        if filter_servers:
            self._filter_servers[broker.address] = list(filter_servers)
        else:
            self._filter_servers.pop(broker.address, None)
        return self._master_of(group) if broker.id != MASTER_ID else Registered()

    def unregister(self, broker: Broker) -> None:
        """Removes one process of a broker name, and the name itself with the last one."""
        self._live.pop(broker.address, None)
        self._filter_servers.pop(broker.address, None)
        group = self._brokers.get(broker.name)
        if group is not None:
            group.addresses.pop(broker.id, None)
            self._drop_if_empty(broker.name, group)

    def is_changed(self, address: str, version: DataVersion) -> bool:
        """True when `version` is not the registered one."""
        known = self._live.get(address)
        return known is None or known.data_version != version

    def data_version(self, address: str) -> DataVersion | None:
        known = self._live.get(address)
        return None if known is None else known.data_version

    def touch(self, address: str, now_ms: int) -> None:
        """Renews a registration without its topics."""
        known = self._live.get(address)
        if known is not None:
            known.last_update_ms = now_ms

    def remove_owner(self, owner: Hashable) -> None:
        """Removes the registrations of a connection that ended."""
        self._remove_where(lambda live: live.owner == owner)

    def expire(self, before_ms: int) -> list[Hashable]:
        """Removes registrations last renewed before `before_ms`. Returns their owners."""
        return self._remove_where(lambda live: live.last_update_ms < before_ms)

    # permissions and topics

    def wipe_write_permission(self, broker_name: str) -> int:
        """Removes the write permission of every topic of a broker. Returns the number of topics."""
        return self._set_permission(broker_name, lambda perm: perm & ~Perm.WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Sets read and write permission for every topic of a broker. Returns the number of topics."""
        return self._set_permission(broker_name, lambda _perm: Perm.READ | Perm.WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Removes a topic from all brokers, or from those of one cluster."""
        queues = self._topics.get(topic, {})
        for name in list(queues) if not cluster else self._clusters.get(cluster, {}):
            queues.pop(name, None)
        if not queues:
            self._topics.pop(topic, None)

    def add_queues(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Adds a topic to brokers that are registered (5.x REGISTER_TOPIC_IN_NAMESRV)."""
        for data in queues:
            if data.broker_name in self._brokers:
                self._topics.setdefault(topic, {})[data.broker_name] = data

    # queries

    def route(self, topic: str) -> TopicRouteData | None:
        """The route of a topic; None when no registered broker has it."""
        queues = self._topics.get(topic, {})
        groups = [(name, self._brokers[name]) for name in queues if name in self._brokers]
        if not groups:
            return None
        addresses = [address for _, group in groups for address in group.addresses.values()]
        return TopicRouteData(
            queue_datas=list(queues.values()),
            broker_datas=[group.data(name) for name, group in groups],
            filter_server_table={
                one: list(self._filter_servers[one]) for one in addresses if one in self._filter_servers
            },
        )

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={name: group.data(name) for name, group in self._brokers.items()},
            cluster_addr_table={cluster: list(names) for cluster, names in self._clusters.items()},
        )

    def member_group(self, broker_name: str) -> dict[int, str]:
        """Addresses of a broker name by id; empty when the name is unknown."""
        group = self._brokers.get(broker_name)
        return dict(group.addresses) if group is not None else {}

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = self._clusters.get(cluster, {})
        return [topic for topic, queues in self._topics.items() if not names.keys().isdisjoint(queues)]

    def system_topics(self) -> tuple[list[str], str | None]:
        """The names of clusters and brokers, which are topics of every broker, and one broker's address."""
        names = dict.fromkeys((*self._clusters, *(name for one in self._clusters.values() for name in one)))
        addresses = (address for group in self._brokers.values() for address in group.addresses.values())
        return list(names), next(addresses, None)

    def flagged_topics(self, mask: int, flags: int) -> list[str]:
        """The topics of which these flags among `mask` are set. Only the first broker counts, as in Java."""
        return [
            topic
            for topic, queues in self._topics.items()
            if next(iter(queues.values())).topic_sys_flag & mask == flags
        ]

    # inside

    def _put_address(self, group: _Group, broker: Broker) -> bool:
        """Adds a process; True when it is new. A slave that became master loses its old id."""
        for other in [one for one, address in group.addresses.items() if address == broker.address]:
            if other != broker.id:
                del group.addresses[other]
        first = broker.id not in group.addresses
        group.addresses[broker.id] = broker.address
        return first

    def _put_topic(self, broker_name: str, topic: TopicConfig) -> None:
        self._topics.setdefault(topic.topic_name, {})[broker_name] = QueueData(
            broker_name=broker_name,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_sys_flag=topic.topic_sys_flag,
        )

    def _master_of(self, group: _Group) -> Registered:
        address = group.addresses.get(MASTER_ID)
        live = self._live.get(address) if address is not None else None
        return Registered(address, live.ha_server_address) if live is not None else Registered()

    def _remove_where(self, matches: Callable[[LiveBroker], bool]) -> list[Hashable]:
        """Removes registrations. Returns their owners."""
        removed = [address for address, live in self._live.items() if matches(live)]
        return [self._remove_address(address).owner for address in removed]

    def _remove_address(self, address: str) -> LiveBroker:
        live = self._live.pop(address)
        self._filter_servers.pop(address, None)
        for name, group in list(self._brokers.items()):
            group.addresses = {one: known for one, known in group.addresses.items() if known != address}
            self._drop_if_empty(name, group)
        return live

    def _drop_if_empty(self, name: str, group: _Group) -> None:
        if group.addresses:
            return
        del self._brokers[name]
        for cluster, names in list(self._clusters.items()):
            names.pop(name, None)
            if not names:
                del self._clusters[cluster]
        for topic in [one for one, queues in self._topics.items() if queues.pop(name, None) and not queues]:
            del self._topics[topic]

    def _set_permission(self, broker_name: str, change: Callable[[int], int]) -> int:
        owned = [queues for queues in self._topics.values() if broker_name in queues]
        for queues in owned:
            data = queues[broker_name]
            queues[broker_name] = replace(data, perm=int(change(data.perm)))
        return len(owned)
