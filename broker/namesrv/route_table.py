"""The brokers and topics that a name server knows (Java `RouteInfoManager`), without I/O, clock or network.

There are five tables: topic → broker name → queue data; broker name → addresses by id; cluster → broker
names; address → the registration that keeps it alive; address → filter servers; and the reverse tables, so
that no change has to examine all topics or brokers. Arguments and results are frozen values or copies.
Generators do long work in steps; routes never name a removed broker, even if its topics are not removed yet.
Times are milliseconds of the caller's clock. The owner of a registration is a hashable value, the connection
over which it arrived; a registration ends with its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from rmqcli.codec.bodies.config import DataVersion, TopicConfig
from rmqcli.codec.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rmqcli.codec.codes import MASTER_ID, Perm

T = TypeVar("T")
Steps = Generator[None, None, T]

TOPICS_PER_STEP = 64


class Broker(NamedTuple):
    """One process of a broker name, identified as in its registration."""

    cluster: str
    name: str
    id: int
    address: str


class Registered(NamedTuple):
    """The addresses of the master, as reported to a slave; None for a master, or while no master is known."""

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
    """The processes of one broker name, the ids of each address, and the clusters that the name is in."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    ids: dict[str, dict[int, None]] = field(default_factory=dict)
    clusters: dict[str, None] = field(default_factory=dict)

    def data(self, name: str) -> BrokerData:
        return BrokerData(
            cluster=self.cluster, broker_name=name, broker_addrs=dict(sorted(self.addresses.items()))
        )

    def put(self, broker: Broker) -> bool:
        """Add a process. Return True if it is new. A slave that became master loses its old id."""
        for other in list(self.ids.get(broker.address, ())):
            if other != broker.id:
                self.remove(other)
        before = self.addresses.get(broker.id)
        if before is not None:
            self.remove(broker.id)
        self.addresses[broker.id] = broker.address
        self.ids.setdefault(broker.address, {})[broker.id] = None
        return before is None

    def remove(self, broker_id: int) -> str:
        """Remove a process, and return its address; "" if there was none."""
        address = self.addresses.pop(broker_id, "")
        ids = self.ids.get(address, {})
        # The values of these dicts are None, so any other default of `pop` means that the key was missing.
        if ids.pop(broker_id, broker_id) is None and not ids:
            del self.ids[address]
        return address


class RouteTable:
    """The tables of one name server."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}
        self._brokers: dict[str, _Group] = {}
        self._names_of: dict[str, dict[str, None]] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._live: dict[str, LiveBroker] = {}
        self._owned: dict[Hashable, dict[str, None]] = {}
        self._filter_servers: dict[str, list[str]] = {}

    # registration

    def register(
        self,
        broker: Broker,
        live: LiveBroker,
        topics: Iterable[TopicConfig],
        filter_servers: list[str] | None = None,
    ) -> Registered:
        """Add or renew a registration.

        Topics are taken only from a master, and those that are known only with a new data version; topics not
        in `topics` stay.
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
        """Like `register`, in steps of one topic."""
        self._clusters.setdefault(broker.cluster, {})[broker.name] = None
        group = self._brokers.setdefault(broker.name, _Group(broker.cluster))
        group.clusters[broker.cluster] = None
        first = group.put(broker)
        self._names_of.setdefault(broker.address, {})[broker.name] = None
        has_news = broker.id == MASTER_ID and (first or self.is_changed(broker.address, live.data_version))
        self._put_live(broker.address, live)
        if filter_servers:
            self._filter_servers[broker.address] = list(filter_servers)
        for topic in topics if broker.id == MASTER_ID else ():
            if self._brokers.get(broker.name) is not group:
                break  # removed between two steps
            # A broker of Java may register a changed topic before all the others, with the same version.
            if has_news or topic.topic_name not in self._topics_of.get(broker.name, ()):
                self._put_topic(broker.name, topic)
            yield
        return self._master_of(group) if broker.id != MASTER_ID else Registered()

    def owned(self, owner: Hashable) -> Collection[str]:
        """Return the addresses that a connection has registered."""
        return self._owned.get(owner, ())

    def unregister(self, broker: Broker) -> Steps[None]:
        """Remove one process of a broker name, and the name itself with the last one."""
        self._pop_live(broker.address)
        group = self._brokers.get(broker.name)
        if group is not None:
            # The id may have had another address than the one that unregisters.
            self._forget_name(group.remove(broker.id), broker.name, group)
            self._forget_name(broker.address, broker.name, group)
            yield from self._drop_if_empty(broker.name, group)

    def is_changed(self, address: str, version: DataVersion) -> bool:
        """Return True if `version` is not the registered one."""
        known = self._live.get(address)
        return known is None or known.data_version != version

    def data_version(self, address: str) -> DataVersion | None:
        known = self._live.get(address)
        return None if known is None else known.data_version

    def touch(self, address: str, now_ms: int) -> None:
        """Renew a registration without its topics."""
        known = self._live.get(address)
        if known is not None:
            known.last_update_ms = now_ms

    def remove_owner(self, owner: Hashable) -> Steps[None]:
        """Remove the registrations of a connection that ended."""
        for address in list(self.owned(owner)):
            if address in self.owned(owner):
                yield from self._remove_address(address)

    def expire(self, before_ms: int) -> Steps[list[Hashable]]:
        """Remove registrations last renewed before `before_ms`. Return their owners."""
        owners = []
        for address, live in list(self._live.items()):
            if live.last_update_ms < before_ms and self._live.get(address) is live:
                owners.append(live.owner)
                yield from self._remove_address(address)
            yield
        return owners

    # permissions and topics

    def wipe_write_permission(self, broker_name: str) -> Steps[int]:
        """Remove the write permission of every topic of a broker. Return the number of topics."""
        return self._set_permission(broker_name, lambda perm: perm & ~Perm.WRITE)

    def add_write_permission(self, broker_name: str) -> Steps[int]:
        """Set read and write permission for every topic of a broker. Return the number of topics."""
        return self._set_permission(broker_name, lambda _perm: Perm.READ | Perm.WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic from all brokers, or from those of one cluster."""
        queues, names = self._topics.get(topic, {}), self._clusters.get(cluster or "", {})
        for name in [name for name in queues if not cluster or name in names]:
            self._remove_queues(topic, name)

    def add_queues(self, topic: str, queues: Iterable[QueueData]) -> Steps[None]:
        """Add a topic to brokers that are registered (5.x REGISTER_TOPIC_IN_NAMESRV)."""
        for data in queues:
            if data.broker_name in self._brokers:
                self._put_queues(topic, data)
            yield

    # queries

    def route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic; None if no registered broker has it."""
        queues = self._topics.get(topic, {})
        groups = [(name, self._brokers[name]) for name in queues if name in self._brokers]
        if not groups:
            return None
        addresses = [address for _, group in groups for address in group.addresses.values()]
        return TopicRouteData(
            queue_datas=[queues[name] for name, _ in groups],
            broker_datas=[group.data(name) for name, group in groups],
            filter_server_table={
                one: list(self._filter_servers[one]) for one in addresses if one in self._filter_servers
            },
        )

    def cluster_info(self) -> Steps[ClusterInfo]:
        brokers = {}
        for name, group in list(self._brokers.items()):
            brokers[name] = group.data(name)
            yield
        return ClusterInfo(
            broker_addr_table=brokers,
            cluster_addr_table={cluster: list(names) for cluster, names in self._clusters.items()},
        )

    def member_group(self, broker_name: str) -> dict[int, str]:
        """Return the addresses of a broker name by id; empty if the name is unknown."""
        group = self._brokers.get(broker_name)
        return dict(group.addresses) if group is not None else {}

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> Steps[list[str]]:
        names = self._clusters.get(cluster, {})
        return self._topics_where(lambda queues: not names.keys().isdisjoint(queues))

    def system_topics(self) -> tuple[list[str], str | None]:
        """Return the names of clusters and brokers, which are topics of every broker, and one broker's
        address.
        """
        names = dict.fromkeys((*self._clusters, *(name for one in self._clusters.values() for name in one)))
        addresses = (address for group in self._brokers.values() for address in group.addresses.values())
        return list(names), next(addresses, None)

    def flagged_topics(self, mask: int, flags: int) -> Steps[list[str]]:
        """Return the topics whose flags among `mask` equal `flags`. Only the first broker of a topic counts,
        as in Java.
        """
        return self._topics_where(lambda queues: next(iter(queues.values())).topic_sys_flag & mask == flags)

    # internal

    def _topics_where(self, wanted: Callable[[Mapping[str, QueueData]], bool]) -> Steps[list[str]]:
        found = []
        for count, topic in enumerate(list(self._topics), 1):
            queues = self._topics.get(topic)
            if queues is not None and wanted(queues):
                found.append(topic)
            if not count % TOPICS_PER_STEP:
                yield
        return found

    def _put_topic(self, broker_name: str, topic: TopicConfig) -> None:
        data = QueueData(
            broker_name=broker_name,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_sys_flag=topic.topic_sys_flag,
        )
        self._put_queues(topic.topic_name, data)

    def _put_queues(self, topic: str, data: QueueData) -> None:
        self._topics.setdefault(topic, {})[data.broker_name] = data
        self._topics_of.setdefault(data.broker_name, {})[topic] = None

    def _remove_queues(self, topic: str, broker_name: str) -> None:
        queues = self._topics[topic]
        del queues[broker_name]
        if not queues:
            del self._topics[topic]
        topics = self._topics_of.get(broker_name, {})
        # As in `_Group.remove`: the values are None, and any other default means that there was none.
        if topics.pop(topic, self) is None and not topics:
            del self._topics_of[broker_name]

    def _put_live(self, address: str, live: LiveBroker) -> None:
        self._pop_live(address)
        self._live[address] = live
        self._owned.setdefault(live.owner, {})[address] = None

    def _pop_live(self, address: str) -> None:
        self._filter_servers.pop(address, None)
        live = self._live.pop(address, None)
        if live is not None:
            owned = self._owned[live.owner]
            del owned[address]
            if not owned:
                del self._owned[live.owner]

    def _master_of(self, group: _Group) -> Registered:
        address = group.addresses.get(MASTER_ID)
        live = self._live.get(address) if address is not None else None
        return Registered(address, live.ha_server_address) if live is not None else Registered()

    def _remove_address(self, address: str) -> Steps[None]:
        self._pop_live(address)
        for name in list(self._names_of.get(address, ())):
            group = self._brokers.get(name)
            if group is not None:
                for broker_id in list(group.ids.get(address, ())):
                    group.remove(broker_id)
                self._forget_name(address, name, group)
                yield from self._drop_if_empty(name, group)

    def _forget_name(self, address: str, name: str, group: _Group) -> None:
        """Forget that an address is in a group, unless it still has another id there."""
        names = self._names_of.get(address, {})
        if address not in group.ids and names.pop(name, self) is None and not names:
            del self._names_of[address]

    def _drop_if_empty(self, name: str, group: _Group) -> Steps[None]:
        """Remove a broker name without processes, in steps. If the name registers again in between, its new
        topics stay."""
        if group.addresses:
            return
        del self._brokers[name]
        for cluster in group.clusters:
            names = self._clusters[cluster]
            del names[name]
            if not names:
                del self._clusters[cluster]
        topics = self._topics_of.pop(name, {})
        while topics:
            topic, _ = topics.popitem()
            queues = self._topics.get(topic, {})
            is_new = topic in self._topics_of.get(name, {})
            if not is_new and queues.pop(name, None) is not None and not queues:
                del self._topics[topic]
            yield

    def _set_permission(self, broker_name: str, change: Callable[[int], int]) -> Steps[int]:
        count = 0
        for topic in list(self._topics_of.get(broker_name, ())):
            queues = self._topics.get(topic, {})
            if broker_name in queues:
                data = queues[broker_name]
                queues[broker_name] = replace(data, perm=int(change(data.perm)))
                count += 1
            yield
        return count
