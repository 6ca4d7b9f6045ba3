"""`PullConsumer`: pulls from single queues, long polls, offsets (Java `DefaultMQPullConsumer`).

It moves offsets only by `commit`, and joins the group only by `register`, to share queues with other members.
The broker matches hashes of tags, and the client compares the tags themselves, so hash collisions have no
effect. Bodies are decompressed. Pulls go to a slave if the master cannot be reached or the broker suggests
it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Unpack

from rmqcli.client.errors import InvalidRequest
from rmqcli.client.group.offset_store import OffsetCalls
from rmqcli.client.group.processor import ConsumerProcessor
from rmqcli.client.group.rebalance import PullRebalance
from rmqcli.client.group.running_info import pull_info
from rmqcli.client.group.settings import ConsumerSettings, MessageSelector
from rmqcli.client.identity import FORBIDDEN_CONSUMER, Namespace, check_group_name
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions
from rmqcli.client.pull.next_pull import check_next_offset, place
from rmqcli.client.results import PULL_STATUSES, PullResult, PullStatus
from rmqcli.client.wire.messages import Reading, read_messages
from rmqcli.client.wire.requests import read_answer
from rmqcli.codec.bodies.heartbeat import ConsumeType, SubscriptionData
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.codec.codes import MASTER_ID, Perm, PullSysFlag
from rmqcli.codec.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.messages import PULL_MESSAGE
from rmqcli.codec.operations.operation import Answer, Operation
from rmqcli.codec.selector import tag_subscription

TOOLS_GROUP = "TOOLS_CONSUMER"  # a group that every broker knows, even one that does not create groups
MAX_BATCH = 1024
BLOCK_SUSPEND = 20.0  # seconds; brokerSuspendMaxTimeMillis
BLOCK_TIMEOUT = 10.0  # further seconds for the reply; consumerTimeoutMillisWhenSuspend is 30 s
SETTINGS = ConsumerSettings()
# These are plain numbers, because combining flags takes microseconds.
_SUBSCRIPTION = int(PullSysFlag.SUBSCRIPTION)
_SUSPENDED = int(PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND)
QueuesChanged = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Awaitable[None] | None]
"""Called with (topic, all queues, own queues) after a rebalance.

An async function, or a plain one that returns quickly.
"""
log = logging.getLogger("rmqcli.client.pull")
PullOperation = Operation[PullMessageRequestHeader, PullMessageResponseHeader, None, bytes]


class PullConsumer(OffsetCalls, Client):
    """Reads messages by queue and offset. The broker uses `group` for permissions, statistics and offsets.

    ```python
    async with PullConsumer("readers") as consumer:
        for queue in await consumer.message_queues("orders"):
            result = await consumer.pull(queue, await consumer.committed(queue) or 0)
            await consumer.commit(queue, result.next_begin_offset)
    ```
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(instance, options)
        self._namespace = self.instance.namespace
        self.group: str = self._namespace.wrap(group or TOOLS_GROUP)
        check_group_name(self.group, FORBIDDEN_CONSUMER)
        self._suggested: dict[MessageQueue, int] = {}
        self._listeners: dict[str, QueuesChanged | None] = {}
        self._version = 0
        self._rebalance = PullRebalance(self.instance, self.group, SETTINGS, self._on_change)
        self._committed: dict[MessageQueue, int] = {}
        self._created_ms = self.instance.now_ms()
        self._processor = ConsumerProcessor(
            self.instance, self.group, self._rebalance.soon, self._committed_on, self._running_info
        )

    async def _close(self, error: BaseException | None) -> None:
        self._rebalance.stop()
        self._processor.close()
        if self._listeners:
            await self.instance.heartbeats.leave_consumer(self.group)

    async def register(self, topics: Mapping[str, QueuesChanged | None]) -> None:
        """Join the group for these topics, each with a listener, which replaces an earlier one.

        A listener is called with the queues of the topic and those of this member, at once and whenever they
        change; its exceptions are logged. Raises NoRoute for an unknown topic, InvalidRequest if the client
        instance has another consumer of the group.
        """
        listeners = {self._namespace.wrap(topic): listener for topic, listener in topics.items()}
        for topic in listeners:
            await self.instance.route(topic)
        self._processor.open()
        self._listeners.update(listeners)
        self._version = self.instance.now_ms()
        await self.instance.heartbeats.announce_consumer(
            self.group, ConsumeType.CONSUME_ACTIVELY, SETTINGS, self._subscriptions()
        )
        self._rebalance.names.update(listeners)
        for topic in listeners:
            self._rebalance.forget(topic)
        self._rebalance.start()

    async def commit(
        self, queue: MessageQueue, offset: int, group: str | None = None, *, oneway: bool = False
    ) -> None:
        await super().commit(queue, offset, group, oneway=oneway)
        if group is None:
            self._committed[self._namespace.wrap_queue(queue)] = offset

    def _committed_on(self, topic: str) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self._committed.items() if queue.topic == topic}

    def _running_info(self, stacks: bool) -> ConsumerRunningInfo:
        return pull_info(self.instance, self.group, self._created_ms, self._subscriptions())

    def _subscriptions(self) -> list[SubscriptionData]:
        return [tag_subscription(topic, "*", self._version) for topic in sorted(self._listeners)]

    async def queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """Return this member's current queues of a registered topic (Java `fetchMessageQueuesInBalance`)."""
        name = self._namespace.wrap(topic)
        if name not in self._listeners:
            raise InvalidRequest(f"topic {topic} is not registered")
        return self._namespace.unwrap_queues(await self._rebalance.queues(name))

    async def _on_change(
        self, topic: str, queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        await notify(self._listeners.get(topic), self._namespace, topic, queues, mine)

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic by broker name and number.

        Raises NoRoute if it is unknown.
        """
        route = await self.instance.route(self._namespace.wrap(topic))
        return self._namespace.unwrap_queues(route.subscribe)

    async def unread_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that no consumer reads.

        They are those of a readable topic that has more write queues than read queues.
        """
        route = await self.instance.route(self._namespace.wrap(topic))
        return self._namespace.unwrap_queues(
            MessageQueue(route.topic, one.broker_name, number)
            for one in route.data.queue_datas
            if one.perm & Perm.READ
            for number in range(one.read_queue_nums, one.write_queue_nums)
        )

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = 32,
        expression: str = "*",
        *,
        suspend: float = 0.0,
        timeout: float | None = None,
        expression_type: str = "TAG",
    ) -> PullResult:
        """Return messages from `offset` on. The next pull starts at `next_begin_offset`.

        `suspend`: seconds for which the broker may wait for a message (long poll); `timeout` (seconds) is
        added to it. An offset outside the queue yields the status OFFSET_ILLEGAL, not an error. A refusal
        raises BrokerRefused.
        """
        selector = MessageSelector(expression, expression_type)
        return await self.pull_as(PULL_MESSAGE, queue, offset, max_nums, selector, suspend, timeout)

    async def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = 32,
        expression: str = "*",
        *,
        expression_type: str = "TAG",
    ) -> PullResult:
        """Call `pull` with a long poll of BLOCK_SUSPEND seconds and BLOCK_TIMEOUT further seconds of
        timeout.
        """
        selector = MessageSelector(expression, expression_type)
        return await self.pull_as(
            PULL_MESSAGE, queue, offset, max_nums, selector, BLOCK_SUSPEND, BLOCK_TIMEOUT
        )

    async def pull_as(
        self,
        operation: PullOperation,
        queue: MessageQueue,
        offset: int,
        max_nums: int,
        selector: MessageSelector,
        suspend: float,
        timeout: float | None,
        flags: int = 0,
    ) -> PullResult:
        """Like `pull`, with another operation and additional `flags` of PullSysFlag."""
        queue = self._namespace.wrap_queue(queue)
        expression, expression_type = selector
        tags = selector.tags()
        header = PullMessageRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=min(max_nums, MAX_BATCH),
            sys_flag=flags | (_SUSPENDED if suspend > 0 else _SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=round(suspend * 1000),
            subscription=expression or "*",
            sub_version=0,
            expression_type=expression_type,
            bname=queue.broker_name,
        )
        reply = await self.instance.read_queue(
            queue,
            operation.code,
            header,
            timeout=(self.instance.timeout if timeout is None else timeout) + suspend,
            prefer=self._suggested.get(queue, MASTER_ID),
            ok=PULL_STATUSES,
        )
        answer = read_answer(operation, reply, queue.broker_name)
        check_next_offset(answer.header.next_begin_offset, queue.broker_name)
        return await self._result(queue, offset, answer, reply.code, tags)

    async def _result(
        self,
        queue: MessageQueue,
        offset: int,
        answer: Answer[PullMessageResponseHeader, bytes],
        code: int,
        tags: frozenset[str],
    ) -> PullResult:
        header = answer.header
        if header.suggest_which_broker_id is not None:
            self._suggested[queue] = header.suggest_which_broker_id
        status = PULL_STATUSES[code]
        found = status is PullStatus.FOUND
        messages, cut_at = Reading([])
        if found:
            messages, cut_at = await read_messages(answer.body, queue.broker_name, begin=offset)
            if header.next_begin_offset > offset:  # otherwise there is no progress, which callers notice
                place(messages, offset, header.next_begin_offset, queue.broker_name, header.offset_delta or 0)
        # A reply that is cut off is continued after its last whole message.
        following = header.next_begin_offset if cut_at is None else messages[-1].queue_offset + 1
        self._namespace.unwrap_messages(messages)
        if tags:
            messages = [message for message in messages if message.tags in tags]
        return PullResult(status, following, header.min_offset, header.max_offset, messages)


async def notify(
    listener: QueuesChanged | None,
    namespace: Namespace,
    topic: str,
    queues: Sequence[MessageQueue],
    mine: Sequence[MessageQueue],
) -> None:
    """Call a listener and log its exceptions."""
    if listener is None:
        return
    try:
        short = namespace.unwrap_queues
        heard = listener(namespace.unwrap(topic), short(queues), short(mine))
        if heard is not None:
            await heard
    except Exception:  # raised by the application; the rebalance continues
        log.exception("the listener of the queues of %s failed", topic)
