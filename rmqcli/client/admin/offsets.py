"""Offsets: of queues, committed by groups, the lag between the two, and resets."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rmqcli.client.admin.area import Area, gather, gather_all
from rmqcli.client.admin.values import NextMessage, QueueLag, ResetPlan, ResetResult, ResetTarget
from rmqcli.client.errors import BrokerRefused, ClientError, NotFound
from rmqcli.client.group.offset_store import OffsetCalls
from rmqcli.client.instance import ClientInstance
from rmqcli.client.pull.consumer import TOOLS_GROUP
from rmqcli.client.results import PULL_STATUSES
from rmqcli.client.wire.messages import read_messages
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel
from rmqcli.codec.bodies.route import TopicRouteData
from rmqcli.codec.bodies.running import ConsumerConnection
from rmqcli.codec.bodies.stats import ConsumeStats, QueueTimeSpan, TopicOffset
from rmqcli.codec.codes import PullSysFlag, ResponseCode
from rmqcli.codec.headers.groups import GetConsumeStatsRequestHeader
from rmqcli.codec.headers.offsets import GetMaxOffsetRequestHeader, GetMinOffsetRequestHeader
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.headers.topics import QueryConsumeTimeSpanRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.groups import GET_CONSUME_STATS
from rmqcli.codec.operations.messages import PULL_MESSAGE
from rmqcli.codec.operations.offsets import GET_MAX_OFFSET, GET_MIN_OFFSET
from rmqcli.codec.operations.topics import QUERY_CONSUME_TIME_SPAN

_NO_OFFSET = TopicOffset(min_offset=0, max_offset=0, last_update_timestamp=0)
DAWN_MS = 1_000_000_000_000  # 2001: no message is older
SETTLE = 30.0  # seconds for running consumers to move; Java's need 10, and up to 1 per orderly queue


class OffsetAdmin(OffsetCalls, Area):
    """Calls about offsets. `OffsetCalls` reads and commits those of single queues."""

    zero_if_absent = False

    async def stats(
        self,
        group: str,
        topic: str | None = None,
        *,
        masters: Mapping[str, str] | None = None,
        failures: dict[str, ClientError] | None = None,
    ) -> ConsumeStats:
        """Return the offsets of a group and its queues (code 208), merged from all masters.

        The result is empty if the group is unknown.

        `masters` contains broker name → address if not all of them are to be queried.
        """
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        targets = await self._admin.brokers.masters() if masters is None else masters
        answers = await self.bodies(targets, GET_CONSUME_STATS, header, failures)
        table = {
            queue: wrapper for stats in answers.values() for queue, wrapper in stats.offset_table.items()
        }
        return ConsumeStats(
            consume_tps=sum(stats.consume_tps for stats in answers.values()),
            offset_table=dict(sorted(table.items())),
        )

    async def next_messages(
        self, group: str, topic: str, *, failures: dict[str, ClientError] | None = None
    ) -> dict[MessageQueue, NextMessage]:
        """Return the next message to consume of each queue (code 303).

        It is the first stored message if nothing is committed, or if the message at the committed offset was
        deleted: brokers then report a delay of 0, Java's a time since 1970.
        """
        header = QueryConsumeTimeSpanRequestHeader(topic=topic, group=group)
        targets = await self._admin.topics.masters(topic)
        answers = await self.bodies(targets, QUERY_CONSUME_TIME_SPAN, header, failures)
        return {
            span.message_queue: _next_message(span, self.instance.now_ms())
            for answer in answers.values()
            for span in answer.consume_time_span_set
            if span.message_queue is not None
        }

    async def lags(
        self, group: str, topic: str | None = None, *, failures: dict[str, ClientError] | None = None
    ) -> list[QueueLag]:
        """Return every queue with an offset of the group, by topic, broker and number.

        Raises NotFound if there is none.
        """
        connection = await self._admin.clients.connected(group, failures)
        stats = await self.stats_on(group, topic, connection, failures)
        if not stats.offset_table:
            await self._admin.groups.check_known(group, failures)
            raise self.none_committed(group, topic, failures)
        return await self.lags_of(group, stats, connection, failures)

    async def stats_on(
        self,
        group: str,
        topic: str | None,
        connection: ConsumerConnection | None,
        failures: dict[str, ClientError] | None,
    ) -> ConsumeStats:
        """Like `stats`, but empty for a topic without offsets or clients of the group, where brokers return
        0.
        """
        stats = await self.stats(group, topic, failures=failures)
        if topic is None or (connection is not None and topic in connection.subscription_table):
            return stats
        everywhere = await self.stats(group, failures=failures)
        has = any(queue.topic == topic for queue in everywhere.offset_table)
        return stats if has else ConsumeStats(consume_tps=stats.consume_tps)

    async def with_subscribed(
        self,
        group: str,
        stats: ConsumeStats,
        connection: ConsumerConnection,
        failures: dict[str, ClientError] | None,
    ) -> ConsumeStats:
        """Add the subscribed topics without committed offsets, which brokers omit, to `stats` of all
        topics.
        """
        known = {queue.topic for queue in stats.offset_table}
        fresh, _ = await gather(
            sorted(connection.subscription_table.keys() - known),
            lambda topic: self.stats(group, topic, failures=failures),
        )
        table = {queue: one for found in fresh.values() for queue, one in found.offset_table.items()}
        return ConsumeStats(consume_tps=stats.consume_tps, offset_table={**stats.offset_table, **table})

    def none_committed(
        self, group: str, topic: str | None, failures: Mapping[str, ClientError] | None
    ) -> ClientError:
        """Return the error for a group without offsets: NotFound, or that of a broker that may have some."""
        where = f" on topic {topic}" if topic else ""
        return self.absent(NotFound, f"group {group} has no offsets{where}", GET_CONSUME_STATS, failures)

    async def lags_of(
        self,
        group: str,
        stats: ConsumeStats,
        connection: ConsumerConnection | None,
        failures: dict[str, ClientError] | None,
    ) -> list[QueueLag]:
        """Return `stats` with the lowest offset and the owner of each queue.

        A deleted topic counts from 0.
        """
        topics = sorted({queue.topic for queue in stats.offset_table})
        read = self._admin.topics.stats
        tables, _ = await gather(topics, lambda topic: read(topic, failures=failures))
        ends = {queue: offset for table in tables.values() for queue, offset in table.items()}
        broadcasting = connection is not None and connection.message_model == MessageModel.BROADCASTING
        owners: Mapping[MessageQueue, str] = {}
        if connection is not None and connection.consume_type == ConsumeType.CONSUME_PASSIVELY:
            ids = [client.client_id for client in connection.connection_set]
            owners = await self._admin.clients.queue_owners(group, ids, failures=failures)
        return [
            QueueLag(
                queue,
                ends.get(queue, _NO_OFFSET).min_offset,
                wrapper.broker_offset,
                wrapper.consumer_offset,
                wrapper.last_timestamp,
                owners.get(queue),
                broadcasting,
                None
                if wrapper.pull_offset is None
                else max(0, wrapper.pull_offset - wrapper.consumer_offset),
            )
            for queue, wrapper in stats.offset_table.items()
        ]

    async def unread(self, topic: str, queues: Mapping[MessageQueue, int]) -> dict[str, int]:
        """Return how many of the last messages of the queues each group of the topic has yet to consume.

        A queue counts in full if brokers know no offset of the group for it.
        """
        groups = await self._admin.topics.groups(topic)
        tables = await gather_all(groups, lambda group: self.stats(group, topic))
        found = dict.fromkeys(groups, 0)
        for group, stats in tables.items():
            for queue, count in queues.items():
                at = stats.offset_table.get(queue)
                left = count if at is None else at.broker_offset - at.consumer_offset
                found[group] += min(count, max(0, left))
        return found

    async def beyond(self, topic: str) -> list[str]:
        """Return the groups with an offset beyond the end of a queue, sorted.

        They will skip all messages up to there.

        This happens when a topic is deleted and created again.
        """
        groups = await self._admin.topics.groups(topic)
        found, _ = await gather(groups, lambda group: self.stats(group, topic))
        return [
            group
            for group in groups
            if group in found
            and any(one.consumer_offset > one.broker_offset for one in found[group].offset_table.values())
        ]

    async def positions(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Return the next offset of each queue that has one, as running clients report it.

        Raises NotFound if there is none.
        """
        clients = self._admin.clients
        lags = await self.lags(group, topic)
        held = await clients.activity(group, await clients.consumer_ids(group, topic))
        return {
            lag.queue: max(lag.consumer_offset, held[lag.queue].offset if lag.queue in held else 0)
            for lag in lags
            if lag.queue.topic == topic and lag.consumer_offset is not None
        }

    async def plan_reset(
        self,
        group: str,
        topic: str,
        target: ResetTarget,
        *,
        queue_id: int | None = None,
        queues: Collection[MessageQueue] | None = None,
    ) -> ResetPlan:
        """Return the effect of a reset on every queue, limited to existing offsets. Does not change anything.

        `queue_id` selects that queue of every broker, `queues` exactly these. Raises NotFound if the topic
        has none of them. Running clients are queried for their positions, which they commit only every few
        seconds. Raises OnlineResetUnsupported if they cannot be moved to the target.
        """
        from rmqcli.client.admin.resets import Resets

        return await Resets(self._admin).plan(group, topic, target, queue_id, queues)

    async def reset(self, plan: ResetPlan, *, settle: float = SETTLE) -> ResetResult:
        """Carry out a plan and read the offsets back.

        The result contains the queues whose offset changes. Waits up to `settle` seconds for running
        consumers to move; a queue that was not seen to move by then has `confirmed=False`. Failures are
        reported per queue. OnlineResetUnsupported is raised before anything is changed.
        """
        from rmqcli.client.admin.resets import Resets

        return await Resets(self._admin).apply(plan, settle)


def _next_message(span: QueueTimeSpan, now_ms: int) -> NextMessage:
    if 0 < span.delay_time < now_ms - DAWN_MS:
        return NextMessage(span.delay_time)
    # If nothing is committed, consume_time_stamp is the time of the first message.
    expired = span.consume_time_stamp <= 0 < span.min_time_stamp
    since = span.min_time_stamp if expired else span.consume_time_stamp
    return NextMessage(max(0, now_ms - since) if since > 0 else 0, expired)


# The ends of queues that a broker leaves out of its statistics of a topic.
#
# GET_TOPIC_STATS_INFO (202) of 4.9 lists the write queues only. While a topic has more read queues than write
# queues, because some are being taken out of use, those that consumers have yet to drain are missing there.


def every_queue(topic: str, data: TopicRouteData) -> list[MessageQueue]:
    """Return the queues of a topic that are written or read: 0 to the larger number of both, by broker."""
    return [
        MessageQueue(topic, one.broker_name, number)
        for one in data.queue_datas
        for number in range(max(one.read_queue_nums, one.write_queue_nums))
    ]


async def ends_of(instance: ClientInstance, address: str, queue: MessageQueue) -> TopicOffset:
    """Return the offsets and last time of a queue as topic statistics would show them. Raises ClientError."""
    topic, name, number = queue.topic, queue.broker_name, queue.queue_id
    at_least = GetMinOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
    at_most = GetMaxOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
    low = max(0, (await instance.ask(address, GET_MIN_OFFSET, at_least, None)).header.offset)
    high = max(0, (await instance.ask(address, GET_MAX_OFFSET, at_most, None)).header.offset)
    last = await _store_time(instance, address, queue, high - 1) if high > low else 0
    return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=last)


async def _store_time(instance: ClientInstance, address: str, queue: MessageQueue, offset: int) -> int:
    """Return the store time of a message, or 0 if it may not be read. No request returns the time alone."""
    header = PullMessageRequestHeader(
        consumer_group=TOOLS_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=1,
        sys_flag=int(PullSysFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
        bname=queue.broker_name,
    )
    try:
        reply = await instance.call(address, PULL_MESSAGE.code, header, ok=PULL_STATUSES)
    except BrokerRefused:
        return 0  # a topic or account without the permission to read
    if reply.code != ResponseCode.SUCCESS:
        return 0
    messages = (await read_messages(reply.body, queue.broker_name, begin=offset)).messages
    return messages[-1].store_timestamp if messages else 0
