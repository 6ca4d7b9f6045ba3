"""Results of administration calls, frozen.

Times are epoch ms, offsets queue offsets, lags counts of messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from rmqcli.client.errors import ClientError
    from rmqcli.codec.bodies.heartbeat import SubscriptionData
    from rmqcli.codec.bodies.running import ClientConnection
    from rmqcli.codec.bodies.stats import ConsumeStats, OffsetWrapper, TopicOffset
    from rmqcli.codec.message import MessageExt
    from rmqcli.codec.message_queue import MessageQueue


class BrokerSummary(NamedTuple):
    """One broker address. `runtime`: the table of GET_BROKER_RUNTIME_INFO, or None if there is an `error`.

    ```python
    (broker,) = await admin.brokers.summaries()
    assert (broker.broker_name, broker.broker_id) == ("broker-a", 0)
    ```
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    runtime: Mapping[str, str] | None
    error: ClientError | None = None


class BrokerLag(NamedTuple):
    """The offsets of a group in a queue, as reported by a broker; `broker` is its label.

    ```python
    (found,) = await admin.brokers.lags(await admin.brokers.masters())
    assert (found.group, found.queue.topic, found.lag) == ("billing", "orders", 1)
    ```
    """

    broker: str
    group: str
    queue: MessageQueue
    offsets: OffsetWrapper

    @property
    def lag(self) -> int | None:
        """None for an offset beyond the end, which belongs to an earlier topic of the same name."""
        lag = self.offsets.broker_offset - self.offsets.consumer_offset
        return None if lag < 0 else lag


class ConnectedProducer(NamedTuple):
    """One connection of a producer to a broker. `version` is a number of `rmqcli.codec.versions`.

    ```python
    await producer.send(Message.of("orders", b"hello"))
    for found in await admin.clients.producers():
        print(found.group, found.client_id, found.address)
    ```
    """

    group: str
    client_id: str
    broker_name: str
    address: str
    language: str
    version: int


class TopicChange(NamedTuple):
    """The brokers that applied a change of a topic or group, and the errors of the others.

    ```python
    change = await admin.topics.create("parcels")
    assert change.brokers == ("broker-a",) and not change.failures
    ```
    """

    brokers: tuple[str, ...]
    failures: Mapping[str, ClientError]


def stored(queues: Mapping[MessageQueue, TopicOffset]) -> int:
    """Return the number of messages in the queues that can still be read."""
    return sum(max(0, ends.max_offset - ends.min_offset) for ends in queues.values())


BEYOND_END = "offset beyond the end"
BROADCASTING = "clients of a broadcasting group keep their offsets"


class NextMessage(NamedTuple):
    """The next message that a group consumes from a queue: its age, or 0 if there is none.

    `expired`: the messages from the committed offset on were deleted, and the age is that of the first one
    left.
    """

    age_ms: int
    expired: bool = False


class QueueLag(NamedTuple):
    """One queue of a group. `consumer_offset` is None if nothing is committed.

    `broadcasting`: each client keeps its offset itself, so the broker's is meaningless. `in_flight`: messages
    of the lag that clients have, pulled or popped, and have not consumed; None for brokers of 4.x.

    ```python
    (queue,) = await admin.offsets.lags("billing", "orders")
    assert (queue.consumer_offset, queue.max_offset, queue.lag) == (0, 1, 1)
    ```
    """

    queue: MessageQueue
    min_offset: int
    max_offset: int
    consumer_offset: int | None
    last_timestamp: int
    client_id: str | None = None
    broadcasting: bool = False
    in_flight: int | None = None

    @property
    def lag_unknown(self) -> str | None:
        """The reason why there is no lag.

        An offset beyond the end belongs to an earlier topic of the same name.
        """
        if self.broadcasting:
            return BROADCASTING
        return BEYOND_END if (self.consumer_offset or 0) > self.max_offset else None

    @property
    def lag(self) -> int | None:
        """The number of messages that can be read from the offset on, never below 0; None if unknown."""
        if self.lag_unknown is not None:
            return None
        return max(0, self.max_offset - max(self.consumer_offset or 0, self.min_offset))


def lag_of(stats: ConsumeStats, *, broadcasting: bool = False) -> tuple[int | None, str | None]:
    """Return the lag of all queues of a group, or None and the reason why it is unknown."""
    offsets = stats.offset_table.values()
    if broadcasting:
        return None, BROADCASTING
    if any(one.consumer_offset > one.broker_offset for one in offsets):
        return None, BEYOND_END
    return sum(one.broker_offset - one.consumer_offset for one in offsets), None


class GroupSummary(NamedTuple):
    """A group in a list of groups. `brokers` are those that have offsets of it.

    ```python
    (group,) = await admin.groups.summaries()
    assert (group.name, group.clients, group.lag) == ("billing", 0, 1)
    ```
    """

    name: str
    clients: int
    consume_type: str
    message_model: str
    consume_tps: float
    lag: int | None
    error: ClientError | None = None
    lag_unknown: str | None = None
    brokers: frozenset[str] = frozenset()

    @property
    def online(self) -> bool:
        return self.clients > 0


class GroupDescription(NamedTuple):
    """A group: its connected clients, subscriptions and offsets.

    ```python
    group = await admin.groups.describe("billing")
    assert (group.online, group.lag) == (False, 1)
    ```
    """

    name: str
    connections: tuple[ClientConnection, ...]
    subscriptions: Mapping[str, SubscriptionData]
    consume_type: str
    message_model: str
    consume_from_where: str
    consume_tps: float
    queues: tuple[QueueLag, ...]

    @property
    def online(self) -> bool:
        return bool(self.connections)

    @property
    def lag_unknown(self) -> str | None:
        """The reason why the lag of the group is unknown: the first one among its queues."""
        from rmqcli.codec.bodies.heartbeat import MessageModel

        if self.message_model == MessageModel.BROADCASTING:
            return BROADCASTING
        return next((queue.lag_unknown for queue in self.queues if queue.lag_unknown), None)

    @property
    def lag(self) -> int | None:
        """The lag of all queues; None if that of any queue is unknown."""
        return None if self.lag_unknown else sum(queue.lag or 0 for queue in self.queues)


class QueryResult(NamedTuple):
    """The messages found, oldest first, and the errors of brokers that could not be queried.

    `may_be_more`: a limit was reached, so older messages may also match.

    ```python
    await producer.send(Message.of("orders", b"hello", keys=["order-42"]))
    found = await admin.messages.query_by_key("orders", "order-42")
    assert [message.body for message in found.messages] == [b"hello"] and not found.failures
    ```
    """

    messages: tuple[MessageExt, ...]
    failures: Mapping[str, ClientError]
    may_be_more: bool = False


class ResetTarget(NamedTuple):
    """The target of a reset: `start`, `end`, `offset` N, `shift` by ±N from the committed offset, `time`
    (epoch ms), or `exact` offsets of queues (an undo).

    ```python
    assert str(ResetTarget("shift", -10)) == "-10"
    assert str(ResetTarget("time", 1_700_000_000_000)) == "@1700000000000"
    ```
    """

    kind: Literal["start", "end", "offset", "shift", "time", "exact"]
    value: int = 0
    exact: Mapping[MessageQueue, int] | None = None

    def __str__(self) -> str:
        texts = {"offset": f"{self.value}", "shift": f"{self.value:+d}", "time": f"@{self.value}"}
        return texts.get(self.kind, self.kind)


class QueueReset(NamedTuple):
    """One queue of a plan. `old` is None if nothing is committed.

    `wanted` is the target before it was limited to existing offsets; None if it was not limited.

    ```python
    plan = await admin.offsets.plan_reset("billing", "orders", ResetTarget("end"))
    (queue,) = plan.queues
    assert (queue.old, queue.new, queue.skipped) == (0, 1, 1)
    ```
    """

    queue: MessageQueue
    old: int | None
    new: int
    min_offset: int
    max_offset: int
    wanted: int | None = None

    @property
    def changes(self) -> bool:
        """False if the group is already at the new offset."""
        return self.old != self.new

    @property
    def replayed(self) -> int:
        """The number of messages that will be consumed again."""
        return max(0, (self.old or 0) - self.new) if self.old is not None else 0

    @property
    def skipped(self) -> int:
        """The number of messages that will not be consumed."""
        start = self.min_offset if self.old is None else max(self.old, self.min_offset)
        return max(0, self.new - start)


class ResetPlan(NamedTuple):
    """The effect of a reset before it is applied. `clients` are the ids of running consumers of the topic.

    ```python
    plan = await admin.offsets.plan_reset("billing", "orders", ResetTarget("end"))
    assert (plan.skipped, plan.replayed, plan.online) == (1, 0, False)
    ```
    """

    group: str
    topic: str
    target: ResetTarget
    queues: tuple[QueueReset, ...]
    clients: tuple[str, ...] = ()

    @property
    def online(self) -> bool:
        return bool(self.clients)

    @property
    def changed(self) -> tuple[QueueReset, ...]:
        """The queues whose offset changes."""
        return tuple(queue for queue in self.queues if queue.changes)

    @property
    def replayed(self) -> int:
        return sum(queue.replayed for queue in self.queues)

    @property
    def skipped(self) -> int:
        return sum(queue.skipped for queue in self.queues)


class QueueResetResult(NamedTuple):
    """The result for one queue. `found`: the last offset seen. `error`: the reason of a failure.

    `client` is the running consumer that has the queue at `found`; None if `found` is the broker's offset.

    ```python
    plan = await admin.offsets.plan_reset("billing", "orders", ResetTarget("end"))
    (queue,) = (await admin.offsets.reset(plan)).queues
    assert (queue.wanted, queue.found, queue.confirmed) == (1, 1, True)
    ```
    """

    queue: MessageQueue
    wanted: int
    found: int | None
    confirmed: bool
    error: ClientError | None = None
    client: str | None = None


class ResetResult(NamedTuple):
    """The result of a reset. `online`: running clients carried it out, not commits.

    ```python
    plan = await admin.offsets.plan_reset("billing", "orders", ResetTarget("end"))
    result = await admin.offsets.reset(plan)
    assert result.complete
    ```
    """

    group: str
    topic: str
    online: bool
    queues: tuple[QueueResetResult, ...]

    @property
    def complete(self) -> bool:
        return all(queue.confirmed for queue in self.queues)
