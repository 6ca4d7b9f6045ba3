"""Options of the data source as typed values. Names are case-insensitive; unknown names are refused.

The names are those of Spark's Kafka source; the names of the old rocketmq-spark connector are accepted as
aliases. `rocketmq.NAME` sets keyword arguments of the client, in camelCase or snake_case. Times are epoch
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rmqcli.client.errors import ClientError
from rmqcli.client.wire.tls import Tls
from rmqcli.export.errors import MaskError, SchemaError
from rmqcli.export.packing import TASK_BYTES
from rmqcli.export.spark_source.account import credentials
from rmqcli.export.spark_source.offsets import EARLIEST, LATEST, Position
from rmqcli.export.spark_source.option_values import (
    OptionError,
    to_assigned,
    to_boolean,
    to_broker_names,
    to_by_queue,
    to_compression,
    to_drop,
    to_milliseconds,
    to_names,
    to_number,
    to_offsets,
    to_paths,
    to_pattern,
    to_positive,
    to_seconds,
    to_size,
    to_text,
    to_trace,
)
from rmqcli.export.spark_source.outages import RETRIES, RETRY_INTERVAL_MS
from rmqcli.export.transform.decoding import FAIL, Decoding, read_decoding
from rmqcli.export.transform.masking import Masks, parse_masks, read_key
from rmqcli.export.transform.transform import Sample, Transform, parse_sample
from rmqcli.extras import MissingPackage
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.grammar.values import GrammarError


def to_sample(name: str, text: str) -> Sample:
    try:
        return parse_sample(name, text)
    except GrammarError as error:
        raise OptionError(str(error)) from None


def to_decoding(decode: str | None, schema: str | None, on_error: str | None) -> Decoding | None:
    """Return the decoding specified by three options. Raises OptionError."""
    if decode is None:
        if schema is not None or on_error is not None:
            raise OptionError("decodeSchema and decodeOnError need the option decode")
        return None
    if schema is None:
        raise OptionError(f"decode={decode} needs decodeSchema: the file of the schema")
    try:
        return read_decoding(decode, schema, on_error or FAIL)
    except (SchemaError, MissingPackage) as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        raise OptionError(f"decodeSchema={schema}: {error.strerror or error}") from None


def to_masks(mask: str | None, key_file: str | None, decoding: Decoding | None) -> Masks | None:
    """Return the masks specified by two options, FIELD:ACTION separated by commas. Raises OptionError."""
    if mask is None:
        if key_file is not None:
            raise OptionError("maskKeyFile needs the option mask: FIELD:ACTION, separated by commas")
        return None
    try:
        key = b"" if key_file is None else read_key(Path(key_file))
        texts = [text.strip() for text in mask.split(",")]
        found = parse_masks(texts, key, has_value=decoding is not None)
        for field in decoding.fields if decoding is not None else ():
            found.field(field)
    except MaskError as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        raise OptionError(f"maskKeyFile={key_file}: {error.strerror or error}") from None
    return found


ALL = OffsetRange()
PULL_BATCH = 32
"""The messages of a pull request; Java brokers return no more by default."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Arguments of clients: `instance` for every client, `producer` for producers. Can be pickled."""

    namesrv: str
    instance: Mapping[str, Any] = field(default_factory=dict)
    producer: Mapping[str, Any] = field(default_factory=dict)
    tls: Tls | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        if self.tls is None:
            return {"namesrv": self.namesrv, **self.instance}
        try:
            context = self.tls.context()
        except ClientError as error:
            raise OptionError(f"rocketmq.tls…: {error}") from None
        return {"namesrv": self.namesrv, "tls": context, **self.instance}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A choice of messages: one of `topics`, `pattern` and `assigned`, or `paths` (optionally with `topics`).

    `assigned` maps topic → broker name → queue ids; the broker name None means every broker. `start` and
    `end` are None for the default of the kind of query.
    """

    client: ClientOptions | None
    paths: tuple[str, ...] = ()
    broker_names: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, Mapping[str | None, tuple[int, ...]]] = field(default_factory=dict)
    start: Position | None = None
    end: Position | None = None
    min_partitions: int | None = None
    max_partition_bytes: int = TASK_BYTES
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int | None = None
    fail_on_data_loss: bool = True
    include_body: bool = True
    selector: str = "*"
    selector_type: str = "TAG"
    group: str | None = None
    pull_batch: int = PULL_BATCH
    queue_id: int | None = None
    offsets: OffsetRange = ALL
    sample: Sample | None = None
    decode: str | None = None
    decode_schema: str | None = None
    decode_on_error: str | None = None
    mask: str | None = None
    mask_key_file: str | None = None
    retries: int = RETRIES
    retry_interval_ms: int = RETRY_INTERVAL_MS

    def transform(self) -> Transform:
        """Return the transform, reading the files named by its options. Raises OptionError."""
        decoding = to_decoding(self.decode, self.decode_schema, self.decode_on_error)
        return Transform(self.sample, decoding, to_masks(self.mask, self.mask_key_file, decoding))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The target of rows; `topic` takes precedence over that of a row."""

    client: ClientOptions
    topic: str | None = None
    group: str = "rmq"
    drop_reserved: bool = False
    retries: int = RETRIES
    retry_interval_ms: int = RETRY_INTERVAL_MS


_ALIASES = {
    "nameserver": "namesrv",
    "rocketmq.namesrv": "namesrv",
    "rocketmq.namesrvaddr": "namesrv",
    "rocketmq.group": "groupid",
    "group": "groupid",
    "consumergroup": "groupid",
    "producergroup": "groupid",
    "subexpression": "selector",
}
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark itself adds to those of a sink."""

_EXPECTED = {
    "pushfilters": "; Spark applies the filters of one query to others of the same data frame, which then have too "
    "few rows. Use subscribe, queueId, queueOffsets, startingTimestamp and endingTimestamp"
}
"""Explanations of options that a user may expect."""

_TABLE = "option."
"""The prefix of options of `CREATE TABLE`."""


_Table = Mapping[str, tuple[str, Callable[[str, str], Any]]]
"""Option → argument and conversion of (name, text). The class has the default."""
_CLIENT = ("namesrv", "groupId", "pullTimeoutMs")
_OUTAGES: _Table = {
    "fetchOffset.numRetries": ("retries", to_number),
    "fetchOffset.retryIntervalMs": ("retry_interval_ms", to_positive),
}
_READ: _Table = {
    **_OUTAGES,
    "path": ("paths", lambda _, text: (text,)),
    "paths": ("paths", to_paths),
    "brokerName": ("broker_names", to_broker_names),
    "subscribe": ("topics", to_names),
    "subscribePattern": ("pattern", to_pattern),
    "assign": ("assigned", to_assigned),
    "minPartitions": ("min_partitions", to_positive),
    "maxPartitionBytes": ("max_partition_bytes", to_size),
    "maxOffsetsPerTrigger": ("max_offsets", to_positive),
    "minOffsetsPerTrigger": ("min_offsets", to_positive),
    "maxTriggerDelay": ("max_trigger_delay_ms", to_milliseconds),
    "failOnDataLoss": ("fail_on_data_loss", to_boolean),
    "includeBody": ("include_body", to_boolean),
    "selector": ("selector", to_text),
    "selectorType": ("selector_type", lambda _, text: text.upper()),
    "groupId": ("group", to_text),
    "pullBatchSize": ("pull_batch", to_positive),
    "queueId": ("queue_id", to_number),
    "queueOffsets": ("offsets", to_offsets),
    "sample": ("sample", to_sample),
    "decode": ("decode", to_text),
    "decodeSchema": ("decode_schema", to_text),
    "decodeOnError": ("decode_on_error", to_text),
    "mask": ("mask", to_text),
    "maskKeyFile": ("mask_key_file", to_text),
}
_POSITIONS = (
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
)
_OF_STORE = frozenset(
    {"path", "paths", "brokername", "subscribe", "selector", "selectortype", "includebody"}
    | {"minpartitions", "maxpartitionbytes", "decode", "decodeschema", "decodeonerror", "sample"}
    | {"mask", "maskkeyfile", "queueid", "queueoffsets", "startingtimestamp", "endingtimestamp"}
)
"""Options that apply to store folders."""
_WRITE: _Table = {
    **_OUTAGES,
    "topic": ("topic", to_text),
    "groupId": ("group", to_text),
    "reservedProperties": ("drop_reserved", to_drop),
}
_INSTANCE: _Table = {
    "timeout": ("timeout", to_seconds),
    "defaultQueues": ("default_queues", to_positive),
}
_PRODUCER: _Table = {
    "sendTimeout": ("send_timeout", to_seconds),
    "retries": ("retries", to_number),
    "compressOver": ("compress_over", to_number),
    "compression": ("compression", to_compression),
    "maxMessageSize": ("max_message_size", to_positive),
    "allowEmpty": ("allow_empty", to_boolean),
    "latencyFaults": ("latency_faults", to_boolean),
    "retryUnstored": ("retry_unstored", to_boolean),
    "trace": ("trace", to_trace),
}
_ACCOUNT = ("accessKey", "secretKey", "secretKeyFile", "securityToken")
_TLS: _Table = {
    "tlsCa": ("ca", to_text),
    "tlsCert": ("certificate", to_text),
    "tlsKey": ("key", to_text),
    "tlsKeyPassword": ("key_password", to_text),
    "tlsInsecure": ("check", lambda name, text: not to_boolean(name, text)),
}
_OF_CLIENT = (*_INSTANCE, *_PRODUCER, *_ACCOUNT, "tls", *_TLS)
_SHOWN = {name.lower(): name for name in (*_CLIENT, *_READ, *_POSITIONS, *_WRITE, *_OF_CLIENT, "pushFilters")}
"""Names as users write them, since Spark passes them in lower case."""


class _Named:
    """Options by their canonical, lower-case names. Each is converted when it is read."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str], aliases: Mapping[str, str]) -> None:
        self.values: dict[str, str] = {}
        self.of_client: dict[str, str] = {}
        if not options:
            raise OptionError(
                "no options are given. Spark hands those of CREATE TABLE to no Python data source: name them in the "
                "query, FROM t WITH (namesrv = …), or use CREATE TEMPORARY VIEW v USING rocketmq OPTIONS (…)"
            )
        for given, value in _of_table(options).items():
            name = aliases.get(given.lower(), given.lower())
            if name.startswith("rocketmq."):
                self.of_client[name.removeprefix("rocketmq.").replace("_", "")] = value
            elif self.values.setdefault(name, value) != value:
                raise OptionError(f"{_shown(name)} is given twice, as {self.values[name]} and as {value}")
        _refuse_unknown(self.values.keys() - _OF_SPARK, known)

    def get(self, name: str, convert: Callable[[str, str], Any]) -> Any:
        return convert(_shown(name), self.values[name]) if name in self.values else None

    def chosen(self, table: _Table) -> dict[str, Any]:
        return _converted(table, self.values, "")

    def client(self) -> ClientOptions | None:
        _refuse_unknown(self.of_client, _OF_CLIENT, "rocketmq.")
        if "namesrv" not in self.values:
            return None
        instance = _converted(_INSTANCE, self.of_client, "rocketmq.")
        milliseconds = self.get("pulltimeoutms", to_positive)
        if milliseconds is not None:
            instance.setdefault("timeout", milliseconds / 1000)
        if found := credentials({name: self.of_client.get(name.lower()) for name in _ACCOUNT}):
            instance["credentials"] = found
        tls = Tls(**_converted(_TLS, self.of_client, "rocketmq."))
        default = "false" if tls == Tls() else "true"
        return ClientOptions(
            self.values["namesrv"],
            instance,
            _converted(_PRODUCER, self.of_client, "rocketmq."),
            tls if to_boolean("rocketmq.tls", self.of_client.get("tls", default)) else None,
        )


def _of_table(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a table without its other properties; other options as they are.

    CREATE TABLE hands in each option with a prefix, and again without it, among properties such as `owner`.
    """
    found = {name[len(_TABLE) :]: value for name, value in options.items() if name.lower().startswith(_TABLE)}
    return found or options


def _shown(name: str) -> str:
    return _SHOWN.get(name, name)


def _converted(table: _Table, given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    return {
        argument: convert(prefix + name, given[name.lower()])
        for name, (argument, convert) in table.items()
        if name.lower() in given
    }


def _refuse_unknown(given: Collection[str], known: Iterable[str], prefix: str = "") -> None:
    names = {name.lower() for name in known}
    unknown = set(given) - names
    if unknown:
        near = get_close_matches(min(unknown), sorted(names), 1)
        hint = _EXPECTED.get(min(unknown)) or (f"; did you mean {_shown(near[0])}?" if near else "")
        raise OptionError(f"{prefix}{_shown(min(unknown))}: unknown option{hint}")


def read_options(options: Mapping[str, str]) -> ReadOptions:
    known = (*_CLIENT, *_READ, *_POSITIONS)
    named = _Named(options, known, {**_ALIASES, "topic": "subscribe"})
    if not named.values.keys().isdisjoint(("path", "paths")):
        _check_of_store(named)
    elif "brokername" in named.values:
        raise OptionError("brokerName names the broker of a store folder: load(path)")
    client, sides = named.client(), (_position(named, "starting"), _position(named, "ending"))
    found = ReadOptions(client, start=sides[0], end=sides[1], **named.chosen(_READ))
    _check(found)
    _check_order(found.start or Position(), found.end or Position())
    return found


def _check_of_store(named: _Named) -> None:
    given = [*named.values, *(f"rocketmq.{name}" for name in named.of_client)]
    others = sorted(name for name in given if name not in _OF_STORE)
    if others:
        raise OptionError(
            f"path cannot be combined with {_shown(others[0])}, only with subscribe, queueId, queueOffsets, "
            "selector, startingTimestamp and endingTimestamp; filter on columns for anything else"
        )


def _check(found: ReadOptions) -> None:
    chosen = [bool(found.topics), found.pattern is not None, bool(found.assigned)].count(True)
    if found.selector_type not in ("TAG", "SQL92"):
        raise OptionError(f"selectorType={found.selector_type}: expected TAG or SQL92")
    if found.paths:
        if found.selector_type != "TAG":
            raise OptionError("selectorType=SQL92 is for a broker; with path filter on the columns")
        return
    if chosen != 1:
        raise OptionError("expected exactly one of subscribe, subscribePattern and assign, or path")
    if found.client is None:
        raise OptionError("namesrv is missing: host:port of the name server; several are separated by ;")
    if found.max_trigger_delay_ms is not None and found.min_offsets is None:
        raise OptionError("maxTriggerDelay is the longest wait for minOffsetsPerTrigger, which is missing")
    if found.max_offsets is not None and found.max_offsets < (found.min_offsets or 0):
        raise OptionError(
            f"minOffsetsPerTrigger={found.min_offsets} is above maxOffsetsPerTrigger={found.max_offsets}"
        )
    if found.selector_type == "SQL92":
        _check_expression(found.selector)


def _check_expression(selector: str) -> None:
    """Refuse an expression that does not parse, because a broker would let every message through."""
    from rmqcli.codec.errors import SelectorError
    from rmqcli.codec.selector import Dialect, parse_sql92

    try:
        parse_sql92(selector, Dialect.V5)
    except SelectorError as error:
        raise OptionError(f"selector={selector}: {error}") from None


def _check_order(start: Position, end: Position) -> None:
    """Refuse a range that ends before it starts."""
    if start.time is not None and end.time is not None and end.time < start.time:
        raise OptionError(f"endingTimestamp={end.time} is before startingTimestamp={start.time}")
    for queue, offset in start.offsets.items():
        if 0 <= end.offsets.get(queue, LATEST) < offset:
            raise OptionError(
                f"endingOffsets: {queue} ends at {end.offsets[queue]}, before it starts at {offset}"
            )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    named = _Named(options, (*_CLIENT, *_WRITE), _ALIASES)
    client = named.client()
    if client is None:
        raise OptionError("namesrv is missing: host:port of the name server; several are separated by ;")
    return WriteOptions(client, **named.chosen(_WRITE))


def _position(named: _Named, side: str) -> Position | None:
    """Return the most specific position given: one time, times by queue, or offsets."""
    time = named.get(f"{side}timestamp", to_number)
    if time is not None:
        return Position(time=time)
    times = named.get(f"{side}offsetsbytimestamp", to_by_queue)
    if times is not None:
        return Position(times=times)
    text = named.values.get(f"{side}offsets", "").strip()
    words = {"": None, "earliest": Position(EARLIEST), "latest": Position(LATEST)}
    if text.lower() not in words:
        return Position(offsets=to_by_queue(f"{side}Offsets", text))
    return words[text.lower()]
