"""Consumer groups: who there is, who is connected, how far they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from codec.bodies.base import encode_body
from codec.bodies.config import SubscriptionGroupConfig, SubscriptionGroupWrapper
from codec.bodies.connections import ClientConnection, ConsumerConnection
from codec.bodies.heartbeat import ConsumeType, SubscriptionData
from codec.bodies.offsets import ConsumerOffsetSerializeWrapper
from codec.bodies.stats import ConsumeStats, TopicOffset
from codec.codes import RequestCode
from codec.headers.clients import GetConsumerConnectionListRequestHeader
from codec.headers.groups import DeleteSubscriptionGroupRequestHeader, GetConsumeStatsRequestHeader
from codec.message import DLQ_PREFIX, RETRY_PREFIX, check_group
from codec.message_queue import MessageQueue
from codec.names import is_system_group
from rmqcli.client.admin.base import gather, reachable, read_body
from rmqcli.client.admin.members import MemberAdmin
from rmqcli.client.admin.topics import TopicAdmin
from rmqcli.client.admin.values import GroupDescription, GroupSummary, QueueLag, TopicChange
from rmqcli.client.errors import (
    UNREACHED,
    ClientError,
    ConsumerOffline,
    GroupNotFound,
    InvalidRequest,
    NotFound,
    TopicNotFound,
)

__all__ = ["GroupAdmin"]

_NO_OFFSET = TopicOffset(min_offset=0, max_offset=0, last_update_timestamp=0)


class GroupAdmin(TopicAdmin, MemberAdmin):
    """Calls about consumer groups. They ask every master of the cluster, since a group may be known to some only."""

    async def group_configs_of_all(
        self, *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, Mapping[str, SubscriptionGroupConfig]]:
        """The whole group table of each broker (code 201), by broker name."""
        return await self.ask_all(await self.masters(), self._group_table, failures)

    async def _group_table(self, address: str) -> Mapping[str, SubscriptionGroupConfig]:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        reply = await self.instance.call(address, code)
        return read_body(SubscriptionGroupWrapper, reply, address, code).subscription_group_table

    async def group_names(
        self, *, system: bool = False, failures: dict[str, ClientError] | None = None
    ) -> list[str]:
        """Every group with settings, offsets or a retry topic, sorted; built-in ones only with `system`."""
        tables = await self.group_configs_of_all(failures=failures)
        names = {name for table in tables.values() for name in table}
        names |= await self._groups_with_offsets(failures)
        names |= {
            topic.removeprefix(RETRY_PREFIX)
            for topic in await self.topics()
            if topic.startswith(RETRY_PREFIX)
        }
        return sorted(name for name in names if system or not is_system_group(name))

    async def _groups_with_offsets(self, failures: Mapping[str, ClientError] | None) -> set[str]:
        """Groups in the offset tables of the brokers (code 43, keys `topic@group`); a broker that refuses adds none."""
        code = RequestCode.GET_ALL_CONSUMER_OFFSET

        async def ask(address: str) -> set[str]:
            reply = await self.instance.call(address, code)
            table = read_body(ConsumerOffsetSerializeWrapper, reply, address, code).offset_table
            return {key.partition("@")[2] for key in table}

        targets = reachable(await self.masters(), failures)
        answers, _ = await gather(targets, lambda name: ask(targets[name]))
        return {group for groups in answers.values() for group in groups if group}

    async def groups(
        self, *, system: bool = False, failures: dict[str, ClientError] | None = None
    ) -> list[GroupSummary]:
        """One summary a group, sorted by name. `failures` is of the brokers; what one of them says of a group only is in the
        summary."""
        names = await self.group_names(system=system, failures=failures)
        answers, errors = await gather(names, lambda name: self._summary(name, failures))
        return [answers.get(name) or GroupSummary(name, 0, "", "", 0.0, 0, errors[name]) for name in names]

    async def _summary(self, name: str, lost: dict[str, ClientError] | None) -> GroupSummary:
        clients, consume_type, model = 0, "", ""
        failures = None if lost is None else dict(lost)
        connection = await self._connection(name, failures)
        if connection is not None:
            clients, consume_type, model = _kind(connection)
        stats = await self.consume_stats(name, failures=failures)
        if lost is not None and failures is not None:
            _note_lost(failures, lost)
        lag = sum(
            max(0, wrapper.broker_offset - wrapper.consumer_offset) for wrapper in stats.offset_table.values()
        )
        return GroupSummary(name, clients, consume_type, model, stats.consume_tps, lag)

    async def group_configs(
        self, group: str, *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, SubscriptionGroupConfig]:
        """The settings of a group by broker name; GroupNotFound when no broker has any."""
        tables = await self.group_configs_of_all(failures=failures)
        found = {name: table[group] for name, table in tables.items() if group in table}
        if not found and failures:
            raise next(iter(failures.values()))
        if not found:
            address = self.instance.name_servers.current
            raise GroupNotFound(
                26,
                f"no broker knows group {group}",
                address,
                RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG.name,
                concluded=True,
            )
        return found

    async def update_group(
        self, config: SubscriptionGroupConfig, *, brokers: Collection[str] = (), cluster: str | None = None
    ) -> TopicChange:
        """Creates a group or overwrites its settings (code 200) on the masters of brokers, of a cluster, or all."""
        try:
            check_group(config.group_name)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        body = encode_body(config)
        targets = await self.masters(brokers=brokers, cluster=cluster)
        answers, failures = await self.ask_each(
            targets, lambda address: self.instance.call(address, code, body=body)
        )
        return TopicChange(tuple(answers), failures)

    async def change_group(
        self,
        group: str,
        changes: Mapping[str, object],
        *,
        brokers: Collection[str] = (),
        cluster: str | None = None,
    ) -> TopicChange:
        """Changes these fields of SubscriptionGroupConfig and keeps the rest, on every broker that has the group (or the
        named ones, a cluster's); GroupNotFound when none of them has it."""
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP

        async def change(address: str) -> bool:
            config = (await self._group_table(address)).get(group)
            if config is None:
                return False
            await self.instance.call(address, code, body=encode_body(replace(config, **changes)))
            return True

        targets = await self.masters(brokers=brokers, cluster=cluster)
        answers, failures = await gather(targets, lambda name: change(targets[name]))
        changed = tuple(name for name, known in answers.items() if known)
        if not changed and not failures:
            await self.group_configs(group)
            text = f"{', '.join(targets)} does not know group {group}"
            address = self.instance.name_servers.current
            raise GroupNotFound(26, text, address, code.name, concluded=True)
        return TopicChange(changed, failures)

    async def delete_group(
        self,
        group: str,
        *,
        remove_offset: bool = False,
        brokers: Collection[str] = (),
        cluster: str | None = None,
    ) -> TopicChange:
        """Deletes the settings of a group (code 207), and with `remove_offset` its offsets."""
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        header = DeleteSubscriptionGroupRequestHeader(
            group_name=group, remove_offset=remove_offset, clean_offset=remove_offset
        )
        targets = await self.masters(brokers=brokers, cluster=cluster)
        answers, failures = await self.ask_each(
            targets, lambda address: self.instance.call(address, code, header)
        )
        return TopicChange(tuple(answers), failures)

    async def delete_group_topics(
        self, group: str, *, cluster: str | None = None, failures: Mapping[str, ClientError] | None = None
    ) -> dict[str, TopicChange]:
        """Deletes the retry topic and the dead letters of a group, where there are any. Brokers that are lost, as `failures` says,
        are not asked, and count as failed."""
        changes = {}
        for topic in (RETRY_PREFIX + group, DLQ_PREFIX + group):
            try:
                changes[topic] = await self._delete_topic(topic, cluster, failures)
            except TopicNotFound:
                continue
        return changes

    async def consumer_connection(
        self, group: str, *, failures: dict[str, ClientError] | None = None
    ) -> ConsumerConnection:
        """The connected clients and subscriptions of a group (code 203); ConsumerOffline when there is none. A broker that
        fails counts only where no other has a client."""
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)

        async def ask(address: str) -> ConsumerConnection | ConsumerOffline:
            try:
                reply = await self.instance.call(address, code, header)
            except ConsumerOffline as error:
                return error
            return read_body(ConsumerConnection, reply, address, code)

        broken: dict[str, ClientError] = {} if failures is None else failures
        answers = await self.ask_all(await self.masters(), ask, broken)
        connections = [answer for answer in answers.values() if isinstance(answer, ConsumerConnection)]
        if connections:
            return _merged(connections)
        offline = [answer for answer in answers.values() if isinstance(answer, ConsumerOffline)]
        raise [*broken.values(), *offline][0]

    async def consume_stats(
        self, group: str, topic: str | None = None, *, failures: dict[str, ClientError] | None = None
    ) -> ConsumeStats:
        """Offsets of a group beside those of the brokers (code 208), merged; an unknown group has an empty table."""
        code = RequestCode.GET_CONSUME_STATS
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)

        async def ask(address: str) -> ConsumeStats:
            return read_body(ConsumeStats, await self.instance.call(address, code, header), address, code)

        answers = await self.ask_all(await self.masters(), ask, failures)
        table = {
            queue: wrapper for stats in answers.values() for queue, wrapper in stats.offset_table.items()
        }
        return ConsumeStats(
            consume_tps=sum(stats.consume_tps for stats in answers.values()),
            offset_table=dict(sorted(table.items())),
        )

    async def offsets(
        self, group: str, topic: str | None = None, *, failures: dict[str, ClientError] | None = None
    ) -> list[QueueLag]:
        """Every queue the group has an offset on, in order of topic, broker, number; NotFound when there is none."""
        connection = await self._connection(group, failures)
        stats = await self._stats(group, topic, connection, failures)
        if not stats.offset_table:
            await self._known(group, failures)
            raise self._no_offsets(group, topic, failures)
        return await self._lags(group, stats, connection, failures)

    async def describe_group(
        self, group: str, topic: str | None = None, *, failures: dict[str, ClientError] | None = None
    ) -> GroupDescription:
        """Clients, subscriptions and queues of a group; GroupNotFound when no broker knows anything of it, NotFound when it has
        no place on `topic`."""
        connection = await self._connection(group, failures)
        stats = await self._stats(group, topic, connection, failures)
        if connection is None and not stats.offset_table:
            await self._known(group, failures)
        if topic is not None and not stats.offset_table:
            raise self._no_offsets(group, topic, failures)
        queues = tuple(await self._lags(group, stats, connection, failures))
        if connection is None:
            return GroupDescription(group, (), {}, "", "", "", stats.consume_tps, queues)
        return GroupDescription(
            group,
            tuple(connection.connection_set),
            connection.subscription_table,
            connection.consume_type or "",
            connection.message_model or "",
            connection.consume_from_where or "",
            stats.consume_tps,
            queues,
        )

    async def _stats(
        self,
        group: str,
        topic: str | None,
        connection: ConsumerConnection | None,
        failures: dict[str, ClientError] | None,
    ) -> ConsumeStats:
        """Empty for a topic that the group neither consumes nor has an offset on: a broker says 0 for all that it is asked for."""
        stats = await self.consume_stats(group, topic, failures=failures)
        if topic is None or (connection is not None and topic in connection.subscription_table):
            return stats
        everywhere = await self.consume_stats(group, failures=failures)
        has = any(queue.topic == topic for queue in everywhere.offset_table)
        return stats if has else ConsumeStats(consume_tps=stats.consume_tps)

    async def _known(self, group: str, failures: dict[str, ClientError] | None) -> None:
        """Raises when nobody knows the group, or a broker that may know it could not be asked."""
        if failures or not (await self.consume_stats(group)).offset_table:
            await self.group_configs(group, failures=failures)

    def _no_offsets(
        self, group: str, topic: str | None, failures: Mapping[str, ClientError] | None
    ) -> ClientError:
        """Why there are none: a broker that was not heard may have some."""
        if failures:
            return next(iter(failures.values()))
        where = f" on topic {topic}" if topic else ""
        address = self.instance.name_servers.current
        code = RequestCode.GET_CONSUME_STATS.name
        return NotFound(22, f"group {group} has no offsets{where}", address, code, concluded=True)

    async def _connection(
        self, group: str, failures: dict[str, ClientError] | None
    ) -> ConsumerConnection | None:
        """None when no broker has a client; with `failures`, none of those that answer."""
        try:
            return await self.consumer_connection(group, failures=failures)
        except ConsumerOffline:
            return None
        except ClientError:
            if not failures:
                raise
            return None

    async def _lags(
        self,
        group: str,
        stats: ConsumeStats,
        connection: ConsumerConnection | None,
        failures: dict[str, ClientError] | None,
    ) -> list[QueueLag]:
        """The table with the lowest offset and the owner of each queue; a topic that has gone counts from 0."""
        topics = sorted({queue.topic for queue in stats.offset_table})
        tables, _ = await gather(topics, lambda topic: self.topic_stats(topic, failures=failures))
        ends = {queue: offset for table in tables.values() for queue, offset in table.items()}
        owners: Mapping[MessageQueue, str] = {}
        if connection is not None and connection.consume_type == ConsumeType.CONSUME_PASSIVELY:
            ids = [client.client_id for client in connection.connection_set]
            owners = await self.queue_owners(group, ids, failures=failures)
        return [
            QueueLag(
                queue,
                ends.get(queue, _NO_OFFSET).min_offset,
                wrapper.broker_offset,
                wrapper.consumer_offset,
                wrapper.last_timestamp,
                owners.get(queue),
            )
            for queue, wrapper in stats.offset_table.items()
        ]


def _note_lost(failures: Mapping[str, ClientError], lost: dict[str, ClientError]) -> None:
    """Takes over which brokers are lost; raises what another one said."""
    for name in failures.keys() - lost.keys():
        if not isinstance(failures[name], UNREACHED):
            raise failures[name]
        lost[name] = failures[name]


def _kind(connection: ConsumerConnection) -> tuple[int, str, str]:
    return len(connection.connection_set), connection.consume_type or "", connection.message_model or ""


def _merged(answers: list[ConsumerConnection]) -> ConsumerConnection:
    """One connection list: a client that is connected to several brokers counts once."""
    connections: dict[str, ClientConnection] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    for answer in answers:
        for connection in answer.connection_set:
            connections.setdefault(connection.client_id, connection)
        subscriptions |= answer.subscription_table
    first = answers[0]
    return ConsumerConnection(
        connection_set=[connections[client_id] for client_id in sorted(connections)],
        subscription_table=subscriptions,
        consume_type=first.consume_type,
        message_model=first.message_model,
        consume_from_where=first.consume_from_where,
    )
