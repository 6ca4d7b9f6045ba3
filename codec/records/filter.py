"""A filter of stored messages by topic, key, tag, queue, and an SQL92 condition over columns and properties.

A name in a condition is one of COLUMNS, named as in an export, or otherwise a property. Values are strings,
which become numbers when compared with a number: `queue_id = 3 AND store_size > 4096 AND region IN ('eu',
'us')`. Integers have 64 bits. Times are in ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from rmqcli.codec.compression import decompress
from rmqcli.codec.errors import CorruptionError, SelectorError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.selector import Dialect, Predicate, parse_sql92, parse_tags

QUOTED = 120
"""The number of characters of an invalid condition that its error quotes."""


def _plain_size(message: MessageExt) -> int:
    try:
        return len(decompress(message.body, message.sys_flag))
    except CorruptionError:
        return len(message.body)


COLUMNS: Mapping[str, Callable[[MessageExt], Any]] = {
    **{
        name: attrgetter(name)
        for name in (
            *("topic", "queue_id", "queue_offset", "commit_log_offset", "msg_id", "offset_msg_id", "tags"),
            *("born_timestamp", "born_host", "store_timestamp", "store_host", "flag", "sys_flag"),
            *("reconsume_times", "prepared_transaction_offset", "store_size", "body_crc"),
        )
    },
    "keys": lambda message: " ".join(message.keys) or None,
    "body_size": _plain_size,
}
"""Columns of a message. `body_size` is the size of the decompressed body, or of the stored one if it cannot
be decompressed; the others are columns of an export.
"""


class Columns(Mapping[str, str]):
    """The columns and properties of a message as strings."""

    __slots__ = ("_message",)

    def __init__(self, message: MessageExt) -> None:
        self._message = message

    def __getitem__(self, name: str) -> str:
        column = COLUMNS.get(name)
        if column is None:
            return self._message.properties[name]
        value = column(self._message)
        if value is None:
            raise KeyError(name)
        return str(value)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._message.properties, **COLUMNS})

    def __len__(self) -> int:
        return len({**self._message.properties, **COLUMNS})


class RecordFilter(NamedTuple):
    """A filter; a field that is not set accepts everything. `key` is one of KEYS, or the UNIQ_KEY. Messages
    to be tested have their bodies as stored.
    """

    key: str | None = None
    tags: frozenset[str] = frozenset()
    queue_id: int | None = None
    where: Predicate | None = None
    topics: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        return self.asks_only()

    def asks_only(self, *names: str) -> bool:
        """Return True if no field other than these is set."""
        given = {name for name, value in self._asdict().items() if value not in (None, frozenset())}
        return given.issubset(names)

    def accepts(self, message: MessageExt) -> bool:
        return (
            (not self.topics or message.topic in self.topics)
            and (self.queue_id is None or message.queue_id == self.queue_id)
            and (not self.tags or message.tags in self.tags)
            and (
                self.key is None
                or self.key in message.keys
                or self.key == message.properties.get(PropertyName.UNIQ_KEY)
            )
            and (self.where is None or self.where.matches(Columns(message)))
        )


def condition(text: str) -> Predicate:
    """Parse an SQL92 condition. Raises SelectorError, with the beginning of the condition, if it does not
    parse.
    """
    try:
        return parse_sql92(text, Dialect.OWN)
    except SelectorError as error:
        quoted = repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")
        raise SelectorError(f"the condition {quoted}: {error}") from None


def record_filter(
    key: str | None = None,
    tag: str = "*",
    queue_id: int | None = None,
    where: str | None = None,
    topics: Iterable[str] | None = None,
) -> RecordFilter:
    """Build a filter. Raises SelectorError if a tag expression or condition does not parse."""
    meets = None if where is None else condition(where)
    return RecordFilter(key, parse_tags(tag), queue_id, meets, frozenset(topics or ()))
