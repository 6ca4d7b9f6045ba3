"""Brokers: the clusters of a name server, addresses, configuration, runtime information, cleaning."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from rmqcli.client.admin.area import Area, gather, unreached
from rmqcli.client.admin.values import BrokerLag, BrokerSummary, TopicChange
from rmqcli.client.errors import BrokerRefused, ClientError, NoBrokers, NoRoute, NotFound, valid
from rmqcli.codec.bodies.config import encode_properties_text
from rmqcli.codec.bodies.route import ClusterInfo
from rmqcli.codec.bodies.stats import BrokerStatsData, OffsetWrapper
from rmqcli.codec.codes import MASTER_ID
from rmqcli.codec.headers.brokers import AdvanceClockRequestHeader, ViewBrokerStatsDataRequestHeader
from rmqcli.codec.headers.groups import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.brokers import (
    ADVANCE_CLOCK,
    DELETE_EXPIRED_COMMITLOG,
    GET_BROKER_CONFIG,
    GET_BROKER_RUNTIME_INFO,
    UPDATE_BROKER_CONFIG,
    VIEW_BROKER_STATS_DATA,
)
from rmqcli.codec.operations.groups import GET_BROKER_CONSUME_STATS, GET_CONSUME_STATS
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.operations.routes import GET_BROKER_CLUSTER_INFO
from rmqcli.codec.operations.topics import CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC

Cleaning = Literal["queues", "topics", "log"]
_CLEANING: Final[Mapping[Cleaning, Operation[None, None, None, None]]] = {
    "queues": CLEAN_EXPIRED_CONSUMEQUEUE,
    "topics": CLEAN_UNUSED_TOPIC,
    "log": DELETE_EXPIRED_COMMITLOG,
}


class BrokerAdmin(Area):
    async def cluster_info(self) -> ClusterInfo:
        """Return all clusters, brokers and addresses known to the name server (code 106).

        Raises NoBrokers if there are none.
        """
        info = (await self.instance.ask_name_server(GET_BROKER_CLUSTER_INFO, None)).body
        if not info.broker_addr_table:
            raise NoBrokers(self.instance.name_servers.current)
        self.instance.routes.learn({name: data.broker_addrs for name, data in info.broker_addr_table.items()})
        return info

    async def masters(self, *, brokers: Collection[str] = (), cluster: str | None = None) -> dict[str, str]:
        """Return broker name → master address of the given brokers, of a cluster, or of all.

        Raises NotFound for an unknown name, or if there is no master.
        """
        info = await self.cluster_info()
        found = {name: addresses.get(MASTER_ID) for name, addresses in self._chosen(info, brokers, cluster)}
        masters = {name: address for name, address in found.items() if address}
        if not masters:
            raise self._unknown("no broker with a master", info.broker_addr_table)
        return masters

    async def seats(self, *, brokers: Collection[str] = (), cluster: str | None = None) -> dict[str, str]:
        """Return label → address of masters and slaves. The label is `NAME`, or `NAME:ID` for a slave.

        The brokers are chosen as by `masters`. Raises NotFound if there is none.
        """
        info = await self.cluster_info()
        seats = {
            name if broker_id == MASTER_ID else f"{name}:{broker_id}": address
            for name, addresses in self._chosen(info, brokers, cluster)
            for broker_id, address in sorted(addresses.items())
        }
        if not seats:
            raise self._unknown("no broker with an address", info.broker_addr_table)
        return seats

    def _chosen(
        self, info: ClusterInfo, brokers: Collection[str], cluster: str | None
    ) -> list[tuple[str, Mapping[int, str]]]:
        """Return name and addresses of each chosen broker, sorted by name.

        Raises NotFound for an unknown name.
        """
        table = info.broker_addr_table
        names = set(table)
        if cluster is not None:
            if cluster not in info.cluster_addr_table:
                raise self._unknown(f"no cluster {cluster}", info.cluster_addr_table, ("cluster", cluster))
            names &= set(info.cluster_addr_table[cluster])
        for name in brokers:
            if name not in names:
                raise self._unknown(f"no broker {name}", names, ("broker", name))
        return [(name, table[name].broker_addrs) for name in sorted(set(brokers) or names)]

    def _unknown(
        self, what: str, known: Collection[str], missing: tuple[str, str] | None = None
    ) -> ClientError:
        text = f"{what}; known: {', '.join(sorted(known)) or 'none'}"
        return self.absent(NotFound, text, GET_BROKER_CLUSTER_INFO, missing=missing, known=known)

    async def runtime_info(self, address: str) -> dict[str, str]:
        """Return the runtime table of the broker at `address` (code 28). All values are strings."""
        return dict((await self.instance.ask(address, GET_BROKER_RUNTIME_INFO, None, None)).body.table)

    async def runtime_infos(
        self, seats: Mapping[str, str], *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, dict[str, str]]:
        """Return the runtime tables of several brokers (code 28) by label."""
        tables = await self.bodies(seats, GET_BROKER_RUNTIME_INFO, None, failures)
        return {label: dict(body.table) for label, body in tables.items()}

    async def lags(
        self, seats: Mapping[str, str], *, failures: dict[str, ClientError] | None = None
    ) -> list[BrokerLag]:
        """Return every queue with offsets of a group on several brokers (code 317), in the order of the
        brokers.

        Brokers list write queues. If a topic has more read queues, which its groups have yet to drain, these
        groups are queried one by one (208).
        """
        header = GetConsumeStatsInBrokerHeader(is_order=False)
        bodies = await self.bodies(seats, GET_BROKER_CONSUME_STATS, header, failures)
        tables = {
            (label, group): [stats.offset_table for stats in found]
            for label, body in bodies.items()
            for table in body.consume_stats_list
            for group, found in sorted(table.items())
        }
        reads = await self._read_queues(
            {queue.topic for by in tables.values() for one in by for queue in one}
        )
        shortened = [key for key, found in tables.items() if any(_lacks(one, reads) for one in found)]
        more, failed = await gather(shortened, lambda key: self._lags_of(seats[key[0]], key[1]))
        for (label, _), error in failed.items():
            if failures is None:
                raise error
            failures.setdefault(label, error)
        for key, found in more.items():
            tables[key].append(found)
        return [
            BrokerLag(label, group, queue, offsets)
            for (label, group), found in tables.items()
            for queue, offsets in sorted({q: one for table in found for q, one in table.items()}.items())
        ]

    async def _read_queues(self, topics: Collection[str]) -> dict[tuple[str, str], int]:
        """Return the number of read queues by topic and broker. Topics without a route are left out."""
        routes, failed = await gather(topics, self.instance.route)
        for error in failed.values():
            if not isinstance(error, NoRoute):
                raise error
        return {
            (topic, one.broker_name): one.read_queue_nums
            for topic, route in routes.items()
            for one in route.data.queue_datas
        }

    async def _lags_of(self, address: str, group: str) -> dict[MessageQueue, OffsetWrapper]:
        header = GetConsumeStatsRequestHeader(consumer_group=group)
        return (await self.instance.ask(address, GET_CONSUME_STATS, header, None)).body.offset_table

    async def statistics(
        self, seats: Mapping[str, str], name: str, key: str, *, failures: dict[str, ClientError]
    ) -> list[BrokerStatsData]:
        """Return a statistic (code 315) of each broker that has it, e.g. TOPIC_PUT_NUMS of a topic.

        A broker counts from its start, and has no item before the first event. Adds to `failures`, even if
        all brokers fail, and skips the brokers that it lists as unreachable.
        """
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)

        async def ask(label: str) -> BrokerStatsData | None:
            try:
                return (await self.instance.ask(seats[label], VIEW_BROKER_STATS_DATA, header, None)).body
            except BrokerRefused as error:
                if "not exist" in error.remark:  # AdminBrokerProcessor.viewBrokerStatsData
                    return None
                raise

        lost = unreached(failures)
        answers, found = await gather([label for label in seats if label not in lost], ask)
        failures.update(found)
        return [answer for answer in answers.values() if answer is not None]

    async def configs(
        self, seats: Mapping[str, str], *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, dict[str, str]]:
        """Return the properties of several brokers that have a value (code 26), by label."""
        return await self.bodies(seats, GET_BROKER_CONFIG, None, failures)

    async def set_config(self, seats: Mapping[str, str], values: Mapping[str, str]) -> TopicChange:
        """Change properties of several brokers (code 25). A broker ignores names that it does not know.

        Raises InvalidRequest for a name or value that is not a single line of text.
        """
        valid(encode_properties_text, values)
        return await self.change(seats, UPDATE_BROKER_CONFIG, None, dict(values))

    async def advance_clock(self, seats: Mapping[str, str], milliseconds: int) -> TopicChange:
        """Move the clocks of test brokers forward: of `rmq up` without a kept store, and of embedded clusters
        (code 31001).

        Everything due by then happens at once: timers, delay levels, invisible messages, checks of
        transactions. Other brokers refuse with NotSupported.
        """
        return await self.change(
            seats, ADVANCE_CLOCK, AdvanceClockRequestHeader(milliseconds=milliseconds), None
        )

    async def clean(self, seats: Mapping[str, str], what: Cleaning) -> TopicChange:
        """Make brokers remove consume queues of deleted topics or expired files of the commit log.

        `queues` (code 306) and `topics` (316: of topics without settings) are consume queues, `log` (329) is
        the commit log.
        """
        return await self.change(seats, _CLEANING[what], None, None)

    async def summaries(self) -> list[BrokerSummary]:
        """Return all addresses of all brokers, sorted, with the runtime table or the error of the request."""
        info = await self.cluster_info()
        seats = sorted(
            (data.cluster, name, broker_id, address)
            for name, data in info.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        )
        runtime, failures = await gather({seat[3]: None for seat in seats}, self.runtime_info)
        return [BrokerSummary(*seat, runtime.get(seat[3]), failures.get(seat[3])) for seat in seats]


def _lacks(table: Mapping[MessageQueue, object], reads: Mapping[tuple[str, str], int]) -> bool:
    """Return True if a topic may have queues that are missing here.

    This is the case if there are fewer queues than read queues on the broker, or none at all.
    """
    one = next(iter(table), None)
    return one is None or len(table) < reads.get((one.topic, one.broker_name), 0)
