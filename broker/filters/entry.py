"""One filter of a group for a topic (Java class `ConsumerFilterData`). Times are epoch ms."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcli.broker.filters.compiler import Compiler
from rmqcli.codec.bodies.filters import BloomFilterData, ConsumerFilterData
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.selector import Predicate


@dataclass(slots=True)
class ConsumerFilter:
    """A filter; `predicate` is None if the saved text does not compile, and pulls with it are refused.

    `client_version` is the version of the subscription. `bloom` is None for the filter of a single pull.
    """

    topic: str
    group: str
    expression: str
    expression_type: str
    predicate: Predicate | None
    born_time: int
    client_version: int
    bloom: BloomFilterData | None = None
    dead_time: int = 0

    @classmethod
    def of_data(cls, data: ConsumerFilterData, compiler: Compiler) -> ConsumerFilter:
        """Return a saved filter, compiling it again."""
        expression, expression_type = data.expression or "", data.expression_type or ""
        return cls(
            topic=data.topic or "",
            group=data.consumer_group or "",
            expression=expression,
            expression_type=expression_type,
            predicate=_compiled_or_none(compiler, expression, expression_type),
            born_time=data.born_time,
            client_version=data.client_version,
            bloom=data.bloom_filter_data,
            dead_time=data.dead_time,
        )

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time

    def dead_for_ms(self, now: int) -> int:
        """Return the time since the filter died; -1 while it is alive."""
        return now - self.dead_time if self.is_dead else -1

    def knew(self, store_timestamp: int) -> bool:
        """Return True if the filter existed when a message was stored, so that the message's bit map is
        meaningful."""
        return store_timestamp > self.born_time

    def data(self) -> ConsumerFilterData:
        """Return the entry of consumerFilter.json."""
        return ConsumerFilterData(
            consumer_group=self.group,
            topic=self.topic,
            expression=self.expression,
            expression_type=self.expression_type,
            born_time=self.born_time,
            dead_time=self.dead_time,
            bloom_filter_data=self.bloom,
            client_version=self.client_version,
            dead=self.is_dead,
        )


def _compiled_or_none(compiler: Compiler, expression: str, expression_type: str) -> Predicate | None:
    try:
        return compiler.compiled(expression, expression_type)
    except SelectorError:
        return None
