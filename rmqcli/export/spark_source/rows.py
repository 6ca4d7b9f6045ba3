"""The columns of rows to send, and the messages made of them.

`body` (string or binary) is required, and `topic` unless the option sets one. Optional are `tags` (string),
`keys` (string or array of strings), `properties` (map of strings to strings) and `delay_level` (int).
`ordering_key` (string) chooses the queue by its hash, like Java's SelectMessageQueueByHash; `queue_id` (int),
with `broker_name` (string), names the queue. The broker name is needed if several brokers have the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from rmqcli.client import by_hash
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import CLOSED_TO_SENDERS
from rmqcli.codec.scan.arrow import schema as export_schema
from rmqcli.export.errors import ExportError
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.spark_source.options import WriteOptions
from rmqcli.export.transform.transform import NOTHING, Transform

_TYPES: Mapping[str, tuple[str, ...]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "delay_level": ("int", "bigint"),
    "ordering_key": ("string",),
    "queue_id": ("int", "bigint"),
    "broker_name": ("string",),
}


class Place(NamedTuple):
    """The queue requested by a row: that of an ordering key, or the one with this number on this broker."""

    ordering_key: str | None = None
    queue_id: int | None = None
    broker_name: str | None = None

    def queue(self, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        """Return the queue among the writable ones of the topic.

        Raises ExportError if it is not one of them.
        """
        if self.ordering_key is not None:
            return by_hash(self.ordering_key)(queues, message)
        found = [
            queue
            for queue in queues
            if queue.queue_id == self.queue_id and self.broker_name in (None, queue.broker_name)
        ]
        where = f"topic {message.topic} has no writable queue {self.queue_id}"
        if not found:
            raise ExportError(f"{where}{f' on {self.broker_name}' if self.broker_name else ''}")
        if len(found) > 1:
            names = ", ".join(queue.broker_name for queue in found)
            raise ExportError(
                f"queue {self.queue_id} of topic {message.topic} is on {names}: name the broker_name"
            )
        return found[0]


class Outgoing(NamedTuple):
    """The message of a row, and the queue that it requests (None: any)."""

    message: Message
    place: Place | None = None


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raise OptionError if messages cannot be made of these columns."""
    for column in schema:
        kind, expected = column.dataType.simpleString(), _TYPES.get(column.name)
        if expected is None:
            raise OptionError(f"column {column.name} is not written; select from {', '.join(_TYPES)}")
        if kind not in expected:
            raise OptionError(f"column {column.name} is {kind}: expected {' or '.join(expected)}")
    names = set(schema.names)
    if "body" not in names:
        raise OptionError("column body is missing")
    if "topic" not in names and options.topic is None:
        raise OptionError("there is neither a column topic nor the option topic")
    if "broker_name" in names and "queue_id" not in names:
        raise OptionError("column broker_name needs a column queue_id: together they name a queue")


def outgoing(batch: Any, options: WriteOptions) -> Iterator[Outgoing]:
    """Yield the messages of a record batch. Raises ExportError for a row that is not a message."""
    columns = {name: batch[name].to_pylist() for name in batch.schema.names}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        yield Outgoing(_message(row, options), _place(row))


def _message(row: Mapping[str, Any], options: WriteOptions) -> Message:
    topic, body = options.topic or row.get("topic"), row["body"]
    if topic is None or body is None:
        raise ExportError(f"a row has no {'topic' if topic is None else 'body'}: {dict(row)}")
    tags = row.get("tags")
    if tags is not None and "||" in tags:
        raise ExportError(f"tags {tags!r}: a message has one tag; || joins the tags of a subscription")
    return Message.of(
        topic,
        body,
        tags=tags,
        keys=row.get("keys") or (),
        delay_level=row.get("delay_level") or 0,
        properties=_properties(row, drop=options.drop_reserved),
    )


def _properties(row: Mapping[str, Any], *, drop: bool) -> dict[str, str]:
    found = {name: value for name, value in row.get("properties") or () if value is not None}
    reserved = sorted(CLOSED_TO_SENDERS.intersection(found))
    if reserved and not drop:
        raise ExportError(
            f"properties: RocketMQ reserves the name {reserved[0]}; reservedProperties=drop leaves such ones out"
        )
    return {name: value for name, value in found.items() if name not in reserved}


def _place(row: Mapping[str, Any]) -> Place | None:
    place = Place(row.get("ordering_key"), row.get("queue_id"), row.get("broker_name"))
    if place == Place():
        return None
    if place.ordering_key is not None and place.queue_id is not None:
        raise ExportError(f"a row has an ordering_key and a queue_id, which choose a queue each: {dict(row)}")
    if place.ordering_key is None and place.queue_id is None:
        raise ExportError(f"a row has a broker_name, but no queue_id: {dict(row)}")
    return place


# The columns of the data source: those of an export, as Spark types; optionally without `body`, and with those
# that a transform adds.


def spark_schema(*, include_body: bool = True, transform: Transform = NOTHING) -> StructType:
    """Return the schema of `spark.read.format("rocketmq").load()`."""
    found: StructType = from_arrow_schema(_every(transform))
    return found if include_body else StructType([column for column in found if column.name != "body"])


def _every(transform: Transform) -> pa.Schema:
    return pa.schema([*export_schema(), *transform.fields])


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a read: all, or those chosen by `schema()`; `transform` computes some of them."""

    arrow: Any
    transform: Transform = NOTHING

    @classmethod
    def wanted(cls, schema: StructType, transform: Transform = NOTHING) -> Columns:
        """Raise OptionError for an unknown column, or one of another type."""
        there = {column.name: column.dataType for column in spark_schema(transform=transform)}
        for column in schema:
            if there.get(column.name) != column.dataType:
                has = there.get(column.name)
                reason = f"is {has.simpleString()}" if has else f"is none of {', '.join(there)}"
                raise OptionError(f"column {column.name} {column.dataType.simpleString()}: it {reason}")
        every = _every(transform)
        fields = [every.field(column.name).with_nullable(column.nullable) for column in schema]
        return cls(pa.schema(fields), transform)

    def of(self, batch: Any) -> Any:
        """Return the columns of a batch in the schema of every export. Raises DecodeError."""
        batch = self.transform.apply(batch)
        return pa.RecordBatch.from_arrays([batch[name] for name in self.arrow.names], schema=self.arrow)
