"""The SQL92 filters of a broker, by topic and group (Java class `ConsumerFilterManager`).

A heartbeat registers the filters of a group. When the group leaves, or no longer subscribes to a topic, its
filter dies: it is still used for the bit maps of messages, so that the group gets these messages when it
returns, and is removed a day later. A filter is replaced only by one with a greater version. The table is
plain state, changed by one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from rmqcli.broker.filters.compiler import Compiler
from rmqcli.broker.filters.entry import ConsumerFilter
from rmqcli.broker.filters.selection import is_tag_type
from rmqcli.codec.bodies.filters import ConsumerFilterManager, FilterDataMapByTopic
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.selector import BloomFilter, Dialect

DAY_MS = 24 * 3600 * 1000
LOADED_DEAD_SINCE_MS = 30_000


class FilterTable:
    """Topic → group → filter. `dirty` is True if anything changed since the last save.

    `bloom` assigns each filter its bits (brokers: maxErrorRateOfBloomFilter, expectConsumerNumUseFilter);
    `forget_after_ms` is filterDataCleanTimeSpan.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        bloom: BloomFilter | None = None,
        forget_after_ms: int = DAY_MS,
        compiler: Compiler | None = None,
    ) -> None:
        self._now_ms = now_ms
        self._forget_after_ms = forget_after_ms
        self._topics: dict[str, dict[str, ConsumerFilter]] = {}
        self._groups: dict[str, set[str]] = {}  # the topics of each group
        self.bloom = bloom or BloomFilter.of(20, 32)
        self.compiler = compiler or Compiler(Dialect.V4_9)
        self.dirty = False

    def __iter__(self) -> Iterator[ConsumerFilter]:
        for filters in self._topics.values():
            yield from filters.values()

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        filters = self._topics.get(topic)
        return filters.get(group) if filters else None

    def bit_map(self, topic: str, properties: Mapping[str, str]) -> bytes | None:
        """Return the bits of the groups whose filters, dead or alive, match a message; None if its topic has
        no filters.

        They are stored in the consume-queue extension (Java class `CommitLogDispatcherCalcBitMap`).
        """
        filters = self._topics.get(topic)
        if not filters:
            return None
        return self.bloom.bit_map(
            one.bloom
            for one in filters.values()
            if one.predicate is not None and one.bloom is not None and one.predicate.matches(properties)
        )

    def build(
        self, topic: str, group: str, expression: str, expression_type: str, version: int
    ) -> ConsumerFilter:
        """Return a filter that is not in the table and has no bits, for a pull with a separate expression.

        Raises SelectorError.
        """
        return ConsumerFilter(
            topic=topic,
            group=group,
            expression=expression,
            expression_type=expression_type,
            predicate=self.compiler.compiled(expression, expression_type),
            born_time=self._now_ms(),
            client_version=version,
        )

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> list[SelectorError]:
        """Store the filters of a heartbeat; the group's filters for other topics die. Return the errors of
        expressions."""
        errors = []
        named = set()
        for subscription in subscriptions:
            named.add(subscription.topic)
            try:
                self._register(group, subscription)
            except SelectorError as error:
                errors.append(error)
        self._bury(one for topic, one in self._of_group(group) if topic not in named)
        return errors

    def unregister(self, group: str) -> None:
        """Mark the filters of a group as dead after its last member has left."""
        self._bury(one for _, one in self._of_group(group))

    def _of_group(self, group: str) -> list[tuple[str, ConsumerFilter]]:
        found = ((topic, self.get(topic, group)) for topic in self._groups.get(group, ()))
        return [(topic, one) for topic, one in found if one is not None]

    def clean(self) -> None:
        """Remove filters that have been dead for `forget_after_ms`."""
        now = self._now_ms()
        for topic, filters in list(self._topics.items()):
            old = [one.group for one in filters.values() if one.dead_for_ms(now) >= self._forget_after_ms]
            for group in old:
                del filters[group]
                self._groups[group].discard(topic)
                if not self._groups[group]:
                    del self._groups[group]
            if not filters:
                del self._topics[topic]
            self.dirty |= bool(old)

    def wrapper(self) -> ConsumerFilterManager:
        """Clean the table and return the content of consumerFilter.json."""
        self.clean()
        return ConsumerFilterManager(
            filter_data_by_topic={
                topic: FilterDataMapByTopic(
                    group_filter_data={group: one.data() for group, one in filters.items()}, topic=topic
                )
                for topic, filters in self._topics.items()
            }
        )

    def load(self, wrapper: ConsumerFilterManager) -> None:
        """Load saved filters as dead ones. If their bits belong to another bloom filter, load none."""
        loaded = {
            topic: {
                group: ConsumerFilter.of_data(data, self.compiler)
                for group, data in by_topic.group_filter_data.items()
            }
            for topic, by_topic in wrapper.filter_data_by_topic.items()
        }
        every = [one for filters in loaded.values() for one in filters.values()]
        self.dirty = False
        if not all(self.bloom.owns(one.bloom) for one in every):
            return
        dead_time = self._now_ms() - LOADED_DEAD_SINCE_MS
        for one in every:
            if one.dead_time == 0:
                one.dead_time = max(dead_time, one.born_time)  # an earlier time would mean that it is alive
        self._topics = loaded
        self._groups = {}
        for one in every:
            self._groups.setdefault(one.group, set()).add(one.topic)

    def _register(self, group: str, subscription: SubscriptionData) -> None:
        if is_tag_type(subscription.expression_type) or not subscription.sub_string:
            return
        old = self.get(subscription.topic, group)
        if old is None or old.predicate is None or subscription.sub_version > old.client_version:
            self._replace(group, subscription, old)
        elif subscription.sub_version == old.client_version:
            self._revive(old)

    def _replace(self, group: str, subscription: SubscriptionData, old: ConsumerFilter | None) -> None:
        """Replace a filter. If the expression is invalid, the old filter is removed, so that pulls report the
        error."""
        topic, version = subscription.topic, subscription.sub_version
        expression, expression_type = subscription.sub_string, subscription.expression_type
        self.dirty = True
        is_same = old is not None and (old.expression, old.expression_type) == (expression, expression_type)
        if old is not None and is_same and old.predicate is not None:
            old.client_version = version
            self._revive(old)
            return
        filters = self._topics.setdefault(topic, {})
        filters.pop(group, None)
        new = self.build(topic, group, expression, expression_type, version)
        new.bloom = self.bloom.data(f"{group}#{topic}")
        filters[group] = new
        self._groups.setdefault(group, set()).add(topic)

    def _revive(self, one: ConsumerFilter) -> None:
        if one.is_dead:
            one.dead_time = 0
            self.dirty = True

    def _bury(self, filters: Iterable[ConsumerFilter]) -> None:
        now = self._now_ms()
        for one in filters:
            if not one.is_dead:
                one.dead_time = now
                self.dirty = True
