"""Consumer groups: names, summaries, settings; create, update, delete."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

from msgspec.structs import replace

from rmqcli.client.admin.area import Area, gather, reachable
from rmqcli.client.admin.values import GroupDescription, GroupSummary, TopicChange, lag_of
from rmqcli.client.errors import UNREACHED, ClientError, GroupNotFound, SettingsIgnored, TopicNotFound, valid
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper
from rmqcli.codec.bodies.pop import SetMessageRequestModeRequestBody
from rmqcli.codec.headers.groups import DeleteSubscriptionGroupRequestHeader
from rmqcli.codec.message import DLQ_PREFIX, RETRY_PREFIX, check_group
from rmqcli.codec.names import is_system_group
from rmqcli.codec.operations.groups import (
    DELETE_SUBSCRIPTIONGROUP,
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
)
from rmqcli.codec.operations.offsets import GET_ALL_CONSUMER_OFFSET
from rmqcli.codec.operations.operation import Answer
from rmqcli.codec.operations.pop import SET_MESSAGE_REQUEST_MODE

OF_5X = {"consume_message_orderly": "consumeMessageOrderly", "group_retry_policy": "groupRetryPolicy"}
"""Fields of SubscriptionGroupConfig that commands set and that brokers store since 5.0, with Java's names."""

OffsetTables = tuple[
    dict[str, Answer[None, ConsumerOffsetSerializeWrapper]],
    dict[str, ClientError],
]


def _is_pop_retry(name: str, groups: Container[str], topics: Container[str]) -> bool:
    """Return True if a retry topic belongs to a group and a topic (POP): `GROUP_TOPIC`, or `GROUP+TOPIC`."""
    return any(
        name[:end] in groups and name[end + 1 :] in topics for end, sign in enumerate(name) if sign in "_+"
    )


class GroupAdmin(Area):
    """Calls about consumer groups.

    They query every master of the cluster, because each has its own table of groups.
    """

    async def all_settings(
        self, *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, Mapping[str, SubscriptionGroupConfig]]:
        """Return the group table of every broker (code 201), by broker name."""
        return await self.ask_all(await self._admin.brokers.masters(), self._group_table, failures)

    async def _group_table(self, address: str) -> Mapping[str, SubscriptionGroupConfig]:
        answer = await self.instance.ask(address, GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, None)
        return answer.body.subscription_group_table

    async def names(
        self, *, system: bool = False, failures: dict[str, ClientError] | None = None
    ) -> list[str]:
        """Return every group with settings, offsets or a retry topic, sorted.

        With `system`, built-in groups as well.
        """
        tables = await self.all_settings(failures=failures)
        names = {name for table in tables.values() for name in table}
        names |= await self._groups_with_offsets(failures)
        topics = set(await self._admin.topics.names())
        retried = {topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX)}
        names |= {name for name in retried if not _is_pop_retry(name, names, topics)}
        return sorted(name for name in names if system or not is_system_group(name))

    async def _groups_with_offsets(self, failures: Mapping[str, ClientError] | None) -> set[str]:
        """Return the groups in the offset tables of brokers (code 43). Skips brokers that refuse.

        Keys are `topic@group`; 5.x stores the lowest offset of broadcasting clients as
        `topic@group@broadcast` (BroadcastOffsetManager).
        """
        answers, _ = await self._offset_tables(reachable(await self._admin.brokers.masters(), failures))
        keys = (key for answer in answers.values() for key in answer.body.offset_table)
        return {group for key in keys for group in key.split("@")[1:2]} - {""}

    async def _offset_tables(self, targets: Mapping[str, str]) -> OffsetTables:
        return await gather(
            targets, lambda name: self.instance.ask(targets[name], GET_ALL_CONSUMER_OFFSET, None, None)
        )

    async def with_offsets_on(self, topic: str) -> list[str]:
        """Return the groups with offsets on a topic (code 43), sorted, whether or not the topic exists.

        Brokers of 4.9 keep the offsets when the topic is deleted. Raises the first failure.
        """
        answers, failed = await self._offset_tables(await self._admin.brokers.masters())
        for error in failed.values():
            raise error
        keys = [key.split("@") for answer in answers.values() for key in answer.body.offset_table]
        return sorted({key[1] for key in keys if len(key) == 2 and key[0] == topic})

    async def summaries(
        self, *, system: bool = False, failures: dict[str, ClientError] | None = None
    ) -> list[GroupSummary]:
        """Return one summary per group, sorted by name.

        `failures` collects unreachable brokers. An error about a single group is stored in its summary.
        """
        names = await self.names(system=system, failures=failures)
        answers, errors = await gather(names, lambda name: self._summary(name, failures))
        return [
            answers.get(name) or GroupSummary(name, 0, "", "", 0.0, None, errors[name], str(errors[name]))
            for name in names
        ]

    async def _summary(self, name: str, lost: dict[str, ClientError] | None) -> GroupSummary:
        clients, consume_type, model = 0, "", ""
        # A copy: an error about this group alone belongs to its summary, not to `lost`.
        failures = None if lost is None else dict(lost)
        connection = await self._admin.clients.connected(name, failures)
        if connection is not None:
            clients = len(connection.connection_set)
            consume_type, model = connection.consume_type or "", connection.message_model or ""
        stats = await self._admin.offsets.stats(name, failures=failures)
        if lost is not None and failures is not None:
            _note_lost(failures, lost)
        lag, unknown = lag_of(stats, broadcasting=model == MessageModel.BROADCASTING)
        brokers = frozenset(queue.broker_name for queue in stats.offset_table)
        return GroupSummary(
            name, clients, consume_type, model, stats.consume_tps, lag, None, unknown, brokers
        )

    async def settings(
        self, group: str, *, failures: dict[str, ClientError] | None = None
    ) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of a group by broker name (code 201).

        Raises GroupNotFound if no broker has any.
        """
        tables = await self.all_settings(failures=failures)
        found = {name: table[group] for name, table in tables.items() if group in table}
        if not found:
            known = await self._has_offsets(group, failures)
            text = f"group {group} has offsets but no settings" if known else f"no broker knows group {group}"
            operation = GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            raise self.absent(
                GroupNotFound, text, operation, failures, missing=None if known else ("group", group)
            )
        return found

    async def _has_offsets(self, group: str, failures: Mapping[str, ClientError] | None) -> bool:
        lost = dict(failures or {})
        try:
            return bool((await self._admin.offsets.stats(group, failures=lost)).offset_table)
        except ClientError:
            return False

    async def holders(
        self,
        group: str,
        *,
        brokers: Collection[str] = (),
        cluster: str | None = None,
        failures: dict[str, ClientError] | None = None,
    ) -> list[str]:
        """Return the masters that have settings of the group (201), sorted.

        Only the given brokers or those of a cluster are considered, by default all.
        """
        targets = await self._admin.brokers.masters(brokers=brokers, cluster=cluster)
        tables = await self.ask_all(targets, self._group_table, failures)
        return sorted(name for name, table in tables.items() if group in table)

    async def create(
        self, config: SubscriptionGroupConfig, *, brokers: Collection[str] = (), cluster: str | None = None
    ) -> TopicChange:
        """Create a group, or overwrite its settings (200), on the given masters, a cluster, or all
        masters.
        """
        valid(check_group, config.group_name)
        targets = await self._admin.brokers.masters(brokers=brokers, cluster=cluster)
        put, failures = await self.ask_each(targets, lambda address: self._put(address, config))
        return TopicChange(tuple(put), failures)

    async def _put(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Send the settings (200). Raises SettingsIgnored if the broker did not keep those of 5.x."""
        # Brokers take attributes as changes.
        changes = {f"+{name}": value for name, value in (config.attributes or {}).items()} or None
        body = replace(config, attributes=changes)
        await self.instance.ask(address, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
        wanted = [name for name in OF_5X if getattr(config, name) is not None]
        if not wanted:
            return
        # A broker older than 5.0 accepts the request and ignores these fields, so the result is read back.
        found = (await self._group_table(address)).get(config.group_name)
        ignored = [name for name in wanted if found is None or getattr(found, name) != getattr(config, name)]
        if ignored:
            raise SettingsIgnored(f"group {config.group_name}", [OF_5X[name] for name in ignored], address)

    async def update(
        self,
        group: str,
        changes: Mapping[str, object],
        *,
        brokers: Collection[str] = (),
        cluster: str | None = None,
    ) -> TopicChange:
        """Change fields of SubscriptionGroupConfig on the given brokers, those of a cluster, or all.

        Raises GroupNotFound if none of them has the group.
        """

        async def change(address: str) -> bool:
            config = (await self._group_table(address)).get(group)
            if config is None:
                return False
            await self._put(address, replace(config, **changes))
            return True

        targets = await self._admin.brokers.masters(brokers=brokers, cluster=cluster)
        answers, failures = await gather(targets, lambda name: change(targets[name]))
        changed = tuple(name for name, known in answers.items() if known)
        if not changed and not failures:
            # If no broker at all has the group, this raises the error that says so.
            await self.settings(group)
            text = f"{', '.join(targets)} does not know group {group}"
            raise self.absent(GroupNotFound, text, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
        return TopicChange(changed, failures)

    async def delete(
        self,
        group: str,
        *,
        remove_offset: bool = False,
        brokers: Collection[str] = (),
        cluster: str | None = None,
    ) -> TopicChange:
        """Delete the settings of a group (code 207) and, with `remove_offset`, its offsets."""
        header = DeleteSubscriptionGroupRequestHeader(
            group_name=group, remove_offset=remove_offset, clean_offset=remove_offset
        )
        targets = await self._admin.brokers.masters(brokers=brokers, cluster=cluster)
        return await self.change(targets, DELETE_SUBSCRIPTIONGROUP, header, None)

    async def delete_topics(
        self, group: str, *, cluster: str | None = None, failures: Mapping[str, ClientError] | None = None
    ) -> dict[str, TopicChange]:
        """Delete the retry and dead-letter topics of a group, if they exist.

        Brokers that `failures` lists as unreachable are skipped and count as failed.
        """
        changes = {}
        for topic in (RETRY_PREFIX + group, DLQ_PREFIX + group):
            try:
                changes[topic] = await self._admin.topics.try_delete(topic, cluster, failures)
            except TopicNotFound:
                continue
        return changes

    async def describe(
        self, group: str, topic: str | None = None, *, failures: dict[str, ClientError] | None = None
    ) -> GroupDescription:
        """Return the clients, subscriptions and queues of a group.

        Raises GroupNotFound if no broker knows the group, NotFound if it has no offsets on `topic`.
        """
        offsets = self._admin.offsets
        connection = await self._admin.clients.connected(group, failures)
        stats = await offsets.stats_on(group, topic, connection, failures)
        if connection is None and not stats.offset_table:
            await self.check_known(group, failures)
        if topic is not None and not stats.offset_table:
            raise offsets.none_committed(group, topic, failures)
        queues = tuple(await offsets.lags_of(group, stats, connection, failures))
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

    async def check_known(self, group: str, failures: dict[str, ClientError] | None) -> None:
        """Raise if no broker knows the group, or if a broker that may know it did not respond."""
        if failures or not (await self._admin.offsets.stats(group)).offset_table:
            await self.settings(group, failures=failures)

    async def set_mode(
        self, masters: Mapping[str, str], group: str, topic: str, mode: str, share: int = 0
    ) -> TopicChange:
        """Set how a group consumes a topic, PULL or POP (code 401).

        With POP, a queue is shared by `share` further clients; 0: by all of them.
        """
        body = SetMessageRequestModeRequestBody(
            topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share
        )
        return await self.change(masters, SET_MESSAGE_REQUEST_MODE, None, body)


def _note_lost(failures: Mapping[str, ClientError], lost: dict[str, ClientError]) -> None:
    """Add unreachable brokers to `lost`. Raises any other failure."""
    for name in failures.keys() - lost.keys():
        if not isinstance(failures[name], UNREACHED):
            raise failures[name]
        lost[name] = failures[name]
