"""Topics: names, routes, settings, statistics; create, update, delete."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from rmqcli.client.admin.area import Area, gather, gather_all
from rmqcli.client.admin.values import TopicChange, stored
from rmqcli.client.errors import (
    UNREACHED,
    BrokerRefused,
    ClientError,
    NoRoute,
    NotFound,
    SettingsIgnored,
    TopicNotFound,
    valid,
)
from rmqcli.codec.bodies.config import TopicConfig, TopicConfigAndQueueMapping
from rmqcli.codec.bodies.route import TopicRouteData
from rmqcli.codec.bodies.stats import QueryConsumeQueueResponseBody, TopicOffset
from rmqcli.codec.codes import Perm
from rmqcli.codec.headers.routes import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    PutKVConfigRequestHeader,
)
from rmqcli.codec.headers.topics import (
    CreateTopicRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumeQueueRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rmqcli.codec.message import check_topic
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.brokers import GET_TIMER_METRICS
from rmqcli.codec.operations.name_server import DELETE_KV_CONFIG, GET_KV_CONFIG, PUT_KV_CONFIG
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.operations.routes import DELETE_TOPIC_IN_NAMESRV, GET_ALL_TOPIC_LIST_FROM_NAMESERVER
from rmqcli.codec.operations.topics import (
    DELETE_TOPIC_IN_BROKER,
    GET_ALL_TOPIC_CONFIG,
    GET_TOPIC_CONFIG,
    GET_TOPIC_STATS_INFO,
    QUERY_CONSUME_QUEUE,
    QUERY_TOPIC_CONSUME_BY_WHO,
    UPDATE_AND_CREATE_STATIC_TOPIC,
    UPDATE_AND_CREATE_TOPIC,
)

HeaderT = TypeVar("HeaderT")

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
READ_WRITE = Perm.READ | Perm.WRITE


class TopicAdmin(Area):
    """Calls about topics: names, routes, settings and statistics; creation, change and deletion."""

    async def names(self) -> list[str]:
        """Return all topics of the name server, sorted, including retry, dead-letter and system topics.

        Raises NoBrokers if no broker is registered.
        """
        answer = await self.instance.ask_name_server(GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None)
        if not answer.body.topic_list:  # every registered broker has system topics
            await self._admin.brokers.cluster_info()
        return sorted(answer.body.topic_list)

    async def route(self, topic: str) -> TopicRouteData:
        """Return the current route from the name server. Raises NoRoute if it has none."""
        return (await self.instance.routes.read(topic, self.instance.timeout)).data

    async def masters(self, topic: str) -> dict[str, str]:
        """Return broker name → address for each broker of a topic: the master, or the slave with the lowest
        id.
        """
        route = await self.instance.route(topic)
        return {name: table[min(table)] for name, table in route.brokers.items() if table}

    async def holders(self, topic: str) -> tuple[str, ...]:
        """Return the brokers that have the topic according to the name server; none for an unknown topic."""
        try:
            return tuple(data.broker_name for data in (await self.route(topic)).queue_datas)
        except NoRoute:
            return ()

    async def hidden(
        self, topic: str, read_queues: int, *, brokers: Collection[str] = ()
    ) -> dict[MessageQueue, int]:
        """Return how many messages a smaller number of read queues would hide from consumers, by queue.

        Queues without such messages are left out.
        """
        failures: dict[str, ClientError] = {}
        stats = await self.stats(topic, brokers=brokers, failures=failures)
        for error in failures.values():
            if not isinstance(error, UNREACHED):  # an unreachable broker cannot be changed either
                raise error
        beyond = {queue: offset for queue, offset in stats.items() if queue.queue_id >= read_queues}
        return {queue: count for queue, offset in beyond.items() if (count := stored({queue: offset}))}

    async def settings(
        self, topic: str, *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, TopicConfig]:
        """Return the settings of a topic by broker name (code 21).

        Raises TopicNotFound if no broker has it.
        """
        tables = await self.bodies(await self.masters(topic), GET_ALL_TOPIC_CONFIG, None, failures)
        known = {name: table.topic_config_table.get(topic) for name, table in tables.items()}
        found = {name: config for name, config in known.items() if config is not None}
        if not found:
            text, missing = f"no broker has topic {topic}", ("topic", topic)
            raise self.absent(TopicNotFound, text, GET_ALL_TOPIC_CONFIG, failures, missing=missing)
        return found

    async def all_settings(
        self, *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, Mapping[str, TopicConfig]]:
        """Return the topic table of every master (code 21), by broker name."""
        tables = await self.bodies(await self._admin.brokers.masters(), GET_ALL_TOPIC_CONFIG, None, failures)
        return {name: table.topic_config_table for name, table in tables.items()}

    async def timers(
        self, seats: Mapping[str, str] | None = None, *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, dict[str, int]]:
        """Return how many timer messages wait for each topic, by broker name (code 61).

        `seats` are addresses by broker name; default: all masters. Brokers that refuse are left out, such as
        those of 4.9, which have no timers.
        """

        async def ask(address: str) -> dict[str, int] | None:
            try:
                answer = await self.instance.ask(address, GET_TIMER_METRICS, None, None)
            except BrokerRefused:
                return None
            return {topic: max(one.count, 0) for topic, one in answer.body.timing_count.items()}

        targets = await self._admin.brokers.masters() if seats is None else seats
        answers = await self.ask_all(targets, ask, failures)
        return {name: counts for name, counts in answers.items() if counts is not None}

    async def stats(
        self,
        topic: str,
        *,
        brokers: Collection[str] = (),
        failures: dict[str, ClientError] | None = None,
    ) -> dict[MessageQueue, TopicOffset]:
        """Return the lowest offset, next offset and last time of every queue, in queue order (code 202).

        The queues are those from 0 to the larger of the numbers of read and write queues, on the given
        brokers or on all. Queues missing from the reply of a broker are requested one by one.
        """
        from rmqcli.client.admin.offsets import ends_of, every_queue

        header = GetTopicStatsInfoRequestHeader(topic=topic)
        masters = await self.masters(topic)
        chosen = {name: masters[name] for name in masters if not brokers or name in brokers}
        tables = await self.bodies(chosen, GET_TOPIC_STATS_INFO, header, failures)
        merged = {queue: offset for table in tables.values() for queue, offset in table.offset_table.items()}
        data = (await self.instance.route(topic)).data
        left_out = [
            queue for queue in every_queue(topic, data) if queue.broker_name in tables and queue not in merged
        ]
        more, failed = await gather(
            left_out, lambda queue: ends_of(self.instance, chosen[queue.broker_name], queue)
        )
        for queue, error in failed.items():
            if failures is None:
                raise error
            failures.setdefault(queue.broker_name, error)
        return dict(sorted((merged | more).items()))

    async def entries(
        self, queue: MessageQueue, index: int, count: int, *, group: str | None = None
    ) -> QueryConsumeQueueResponseBody:
        """Return at most `count` entries of a consume queue from `index` on (code 321), possibly fewer.

        `index` must be an offset of the queue. With `group`, also return the subscription and filter of a
        running group.
        """
        header = QueryConsumeQueueRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, index=index, count=count, consumer_group=group
        )
        return (await self.instance.ask_queue(queue, QUERY_CONSUME_QUEUE, header)).body

    async def groups(self, topic: str, *, failures: dict[str, ClientError] | None = None) -> list[str]:
        """Return the groups that consume the topic or have offsets on it (code 300), sorted.

        5.x replies with the name of the topic in place of its running groups
        (ConsumerManager.registerConsumer of 5.3.3). That name counts as a group only if a broker has settings
        for it.
        """
        header = QueryTopicConsumeByWhoRequestHeader(topic=topic)
        lists = await self.bodies(await self.masters(topic), QUERY_TOPIC_CONSUME_BY_WHO, header, failures)
        groups = {group for answer in lists.values() for group in answer.group_list}
        if topic in groups and not await self._admin.groups.holders(topic, failures=failures):
            groups.remove(topic)
        return sorted(groups)

    async def create(
        self,
        topic: str,
        *,
        brokers: Collection[str] = (),
        cluster: str | None = None,
        read_queues: int = 8,
        write_queues: int = 8,
        perm: int = READ_WRITE,
        order: bool = False,
        attributes: str | None = None,
    ) -> TopicChange:
        """Create the topic, or overwrite its settings, on the given masters, those of a cluster, or all.

        `attributes` is a string of 5.x, `+key=value,-key`. `order` also stores the queue layout in the name
        servers.
        """
        valid(check_topic, topic)
        config = TopicConfig(topic, read_queues, write_queues, perm, order=order)
        targets = await self._admin.brokers.masters(brokers=brokers, cluster=cluster)
        header = topic_header(config, attributes)
        put, failures = await self.ask_each(targets, lambda address: self._put(address, header))
        change = TopicChange(tuple(put), failures)
        if order:
            # The entry is replaced as a whole, so brokers that were not chosen, refuse or are down keep their part.
            layout = await self._order_layout(topic) | {
                name: f"{name}:{write_queues}" for name in change.brokers
            }
            await self._update_name_servers(
                PUT_KV_CONFIG,
                PutKVConfigRequestHeader(
                    namespace=ORDER_NAMESPACE, key=topic, value=";".join(layout.values())
                ),
            )
        return change

    async def order_layout(self, topic: str) -> str:
        """Return the layout derived from the route of a topic, `broker-a:4;broker-b:4`.

        Raises NoRoute without one.
        """
        data = sorted((await self.route(topic)).queue_datas, key=lambda queues: queues.broker_name)
        return ";".join(f"{queues.broker_name}:{queues.write_queue_nums}" for queues in data)

    async def _order_layout(self, topic: str) -> dict[str, str]:
        """Return the layout of an ordered topic in the name servers: broker name → `name:queues`."""
        header = GetKVConfigRequestHeader(namespace=ORDER_NAMESPACE, key=topic)
        try:
            text = (await self.instance.ask_name_server(GET_KV_CONFIG, header)).header.value or ""
        except NotFound:
            return {}
        return {entry.partition(":")[0]: entry for entry in text.split(";") if entry}

    async def put(self, config: TopicConfig, broker: str, attributes: str | None = None) -> None:
        """Create a topic on one broker, or overwrite its settings there (17). For `attributes` see `create`.

        An ordered topic also needs `put_layout`.
        """
        valid(check_topic, config.topic_name)
        (address,) = (await self._admin.brokers.masters(brokers=[broker])).values()
        await self._put(address, topic_header(config, attributes))

    async def _put(self, address: str, header: CreateTopicRequestHeader) -> None:
        """Send the settings (17). Raises SettingsIgnored if the broker did not keep the attributes."""
        await self.instance.ask(address, UPDATE_AND_CREATE_TOPIC, header, None)
        self.instance.routes.outdate(header.topic)
        wanted = dict(
            part[1:].split("=", 1) for part in (header.attributes or "").split(",") if part.startswith("+")
        )
        if not wanted:
            return
        # A broker older than 5.0 accepts the request and ignores attributes, so the result is read back.
        table = (await self.instance.ask(address, GET_ALL_TOPIC_CONFIG, None, None)).body
        found = table.topic_config_table[header.topic].attributes or {}
        ignored = [name for name, value in wanted.items() if found.get(name) != value]
        if ignored:
            raise SettingsIgnored(f"topic {header.topic}", ignored, address)

    async def put_layout(self, topic: str) -> None:
        """Store the layout of an ordered topic, as given by its route, in the name servers (100)."""
        layout = await self.order_layout(topic)
        await self._update_name_servers(
            PUT_KV_CONFIG, PutKVConfigRequestHeader(namespace=ORDER_NAMESPACE, key=topic, value=layout)
        )

    async def update(
        self,
        topic: str,
        *,
        brokers: Collection[str] = (),
        cluster: str | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        attributes: str | None = None,
    ) -> TopicChange:
        """Change settings on the brokers that have the topic: all, the given ones, or those of a cluster."""
        unknown: dict[str, ClientError] = {}
        configs = await self.settings(topic, failures=unknown)
        chosen = await self._admin.brokers.masters(brokers=brokers, cluster=cluster)
        given = {"read_queue_nums": read_queues, "write_queue_nums": write_queues, "perm": perm}
        changes = {field: value for field, value in given.items() if value is not None}

        async def change(name: str) -> None:
            header = topic_header(replace(configs[name], topic_name=topic, **changes), attributes)
            await self._put(chosen[name], header)

        failures = {name: error for name, error in unknown.items() if name in chosen}
        changed, failed = await gather([name for name in configs if name in chosen], change)
        return _checked(TopicChange(tuple(changed), failures | failed))

    async def delete(
        self, topic: str, *, cluster: str | None = None, failures: Mapping[str, ClientError] | None = None
    ) -> TopicChange:
        """Delete the topic on the masters that have it (of one cluster), then from every name server.

        If a broker fails, the name servers keep the route, because that broker would register the topic
        again. Brokers that `failures` lists as unreachable are skipped and count as failed.
        """
        return _checked(await self.try_delete(topic, cluster, failures))

    async def try_delete(
        self, topic: str, cluster: str | None, known: Mapping[str, ClientError] | None
    ) -> TopicChange:
        """Like `delete`, but do not raise if all brokers fail."""
        lost = {name: error for name, error in (known or {}).items() if isinstance(error, UNREACHED)}
        route = await self.instance.routes.read(topic, self.instance.timeout)
        masters = await self._admin.brokers.masters(cluster=cluster)
        targets = {name: address for name, address in masters.items() if name in route.brokers}
        header = DeleteTopicRequestHeader(topic=topic)
        asked = [name for name in targets if name not in lost]
        answers, failures = await gather(
            asked, lambda name: self.instance.ask(targets[name], DELETE_TOPIC_IN_BROKER, header, None)
        )
        failures |= {name: lost[name] for name in targets if name in lost}
        change = TopicChange(tuple(answers), failures)
        if failures:
            return change
        await self._update_name_servers(
            DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster)
        )
        await self._update_name_servers(
            DELETE_KV_CONFIG, DeleteKVConfigRequestHeader(namespace=ORDER_NAMESPACE, key=topic)
        )
        return change

    async def _update_name_servers(
        self, operation: Operation[HeaderT, None, None, None], header: HeaderT
    ) -> None:
        """Send a change to every name server, because name servers do not replicate."""
        await gather_all(
            self.instance.name_servers.addresses,
            lambda address: self.instance.ask(address, operation, header, None),
        )


def topic_header(config: TopicConfig, attributes: str | None = None) -> CreateTopicRequestHeader:
    """Return the header that creates a topic, or a static topic, with these settings."""
    return CreateTopicRequestHeader(
        topic=config.topic_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=attributes,
    )


def _checked(change: TopicChange) -> TopicChange:
    if change.failures and not change.brokers:
        raise next(iter(change.failures.values()))
    return change


class StaticTopicAdmin(Area):
    async def mappings(self, topic: str) -> dict[str, TopicConfigAndQueueMapping]:
        """Return settings and mapping of a topic on every master that has it.

        Raises the first failure, because a plan without one broker would lose the queues of that broker.
        """
        masters = await self._admin.brokers.masters()
        header = GetTopicConfigRequestHeader(topic=topic, lo=True)  # without `lo`, brokers omit mappings

        async def ask(name: str) -> TopicConfigAndQueueMapping | None:
            try:
                return (await self.instance.ask(masters[name], GET_TOPIC_CONFIG, header, None)).body
            except TopicNotFound:
                return None

        found = await gather_all(masters, ask)
        return {name: config for name, config in found.items() if config is not None}

    async def put(self, mapped: Mapping[str, TopicConfigAndQueueMapping], *, force: bool = False) -> None:
        """Write settings and mapping to each of these masters, one after the other. Raises the first failure.

        A broker refuses an older epoch, and changes of fixed ranges, unless `force` is set.
        """
        masters = await self._admin.brokers.masters(brokers=mapped)
        for name, config in mapped.items():
            header = replace(topic_header(config), force=force)
            detail = config.mapping_detail
            if detail is not None:
                await self.instance.ask(masters[name], UPDATE_AND_CREATE_STATIC_TOPIC, header, detail)
