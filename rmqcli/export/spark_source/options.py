"""Options of the data source as typed values. Names are case-insensitive; unknown names are refused.

The names are those of Spark's Kafka source; those of the old rocketmq-spark connector are accepted as
aliases. `rocketmq.NAME` sets keyword arguments of the client, in camelCase or snake_case. Times are epoch
milliseconds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from codec.message_queue import MessageQueue
from rmqcli.export.errors import ExportError
from rmqcli.export.spark_source.offsets import EARLIEST, LATEST, Position, queues_from_json

PULL_BATCH = 32
"""Messages of a pull request; Java brokers return no more by default."""


class OptionError(ExportError, ValueError):
    """An option of the data source is missing, unknown, or invalid; nothing was read or written."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Arguments of clients: `instance` for every client, `producer` for producers. Picklable."""

    namesrv: str
    instance: Mapping[str, Any] = field(default_factory=dict)
    producer: Mapping[str, Any] = field(default_factory=dict)
    tls: bool = False
    tls_ca: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        if not self.tls:
            return {"namesrv": self.namesrv, **self.instance}
        import ssl

        try:
            tls = ssl.create_default_context(cafile=self.tls_ca)
        except OSError as error:  # SSLError is one
            raise OptionError(
                f"rocketmq.tlsCa={self.tls_ca}: no certificates: {error.strerror or error}"
            ) from None
        return {"namesrv": self.namesrv, "tls": tls, **self.instance}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read: exactly one of `topics`, `pattern`, `assigned`, or `path` (with `topics`, optionally).

    `assigned` maps topic → broker name → queue ids; the broker name None is every broker. `start` and `end`
    None are the default of the kind of query. `push_filters` is off by default: Spark 4.3 keeps the filters
    of the last plan with the loaded data frame, and a second use of it reads only what those accept.
    """

    client: ClientOptions | None
    path: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, Mapping[str | None, tuple[int, ...]]] = field(default_factory=dict)
    start: Position | None = None
    end: Position | None = None
    min_partitions: int | None = None
    max_offsets: int | None = None
    fail_on_data_loss: bool = True
    include_body: bool = True
    selector: str = "*"
    selector_type: str = "TAG"
    group: str | None = None
    pull_batch: int = PULL_BATCH
    push_filters: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write: `topic` is for rows without one."""

    client: ClientOptions
    topic: str | None = None
    group: str = "rmq"


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
_SHARED = frozenset({"namesrv", "groupid", "pulltimeoutms"})
_READ = _SHARED | {
    *("path", "subscribe", "subscribepattern", "assign", "startingoffsets", "endingoffsets"),
    *("startingtimestamp", "endingtimestamp", "startingoffsetsbytimestamp", "endingoffsetsbytimestamp"),
    *("minpartitions", "maxoffsetspertrigger", "failondataloss", "includebody"),
    *("selector", "selectortype", "pullbatchsize", "pushfilters"),
}
_WRITE = _SHARED | {"topic"}
_OF_STORE = frozenset(
    {"path", "subscribe", "selector", "selectortype", "minpartitions", "includebody", "pushfilters"}
)
"""Options that apply to a store folder."""
_SHOWN = {
    name.lower(): name
    for name in (
        *("groupId", "pullTimeoutMs", "subscribePattern", "startingOffsets", "endingOffsets"),
        *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
        *("minPartitions", "maxOffsetsPerTrigger", "failOnDataLoss", "includeBody"),
        *("selectorType", "pullBatchSize", "pushFilters", "sendTimeout", "compressOver", "maxMessageSize"),
        *("allowEmpty", "latencyFaults", "retryUnstored", "defaultQueues", "tlsCa"),
    )
}
"""Names as users write them; Spark passes them in lower case."""
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark itself adds to those of a sink."""


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name}={text}: true or false is expected")
    return text.lower() == "true"


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise OptionError(f"{name}={text}: a number is expected")
    return int(text)


def _positive(name: str, text: str) -> int:
    number = _number(name, text)
    if number < 1:
        raise OptionError(f"{name}={text}: 1 or more is expected")
    return number


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < math.inf:
        raise OptionError(f"{name}={text}: seconds are expected, more than 0")
    return seconds


def _text(name: str, text: str) -> str:
    return text


def _compression(name: str, text: str) -> str | None:
    from rmqcli.client.produce.outgoing import COMPRESSIONS

    if text.lower() not in (*COMPRESSIONS, "none"):
        raise OptionError(f"{name}={text}: {', '.join(COMPRESSIONS)} or none is expected")
    return None if text.lower() == "none" else text.lower()


def _trace(name: str, text: str) -> bool | str:
    return _boolean(name, text) if text.lower() in ("true", "false") else text


_INSTANCE: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "timeout": ("timeout", _seconds),
    "defaultqueues": ("default_queues", _positive),
}
_PRODUCER: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "sendtimeout": ("send_timeout", _seconds),
    "retries": ("retries", _number),
    "compressover": ("compress_over", _number),
    "compression": ("compression", _compression),
    "maxmessagesize": ("max_message_size", _positive),
    "allowempty": ("allow_empty", _boolean),
    "latencyfaults": ("latency_faults", _boolean),
    "retryunstored": ("retry_unstored", _boolean),
    "trace": ("trace", _trace),
}
_TLS = frozenset({"tls", "tlsca"})


class _Named:
    """Options by their canonical, lower-case names; each is converted when it is read."""

    def __init__(self, options: Mapping[str, str], known: frozenset[str], aliases: Mapping[str, str]) -> None:
        self.values: dict[str, str] = {}
        self.of_client: dict[str, str] = {}
        for given, value in options.items():
            name = aliases.get(given.lower(), given.lower())
            if name.startswith("rocketmq."):
                self.of_client[name.removeprefix("rocketmq.").replace("_", "")] = value
            elif self.values.setdefault(name, value) != value:
                shown = _SHOWN.get(name, name)
                raise OptionError(f"{shown} is given twice, as {self.values[name]} and as {value}")
        unknown = self.values.keys() - known - _OF_SPARK
        if unknown:
            raise OptionError(_unknown(min(unknown), known))

    def get(self, name: str, convert: Callable[[str, str], Any] = _text, default: Any = None) -> Any:
        return convert(_SHOWN.get(name, name), self.values[name]) if name in self.values else default

    def client(self) -> ClientOptions | None:
        known = _INSTANCE.keys() | _PRODUCER.keys() | _TLS
        unknown = self.of_client.keys() - known
        if unknown:
            raise OptionError("rocketmq." + _unknown(min(unknown), frozenset(known)))
        if "namesrv" not in self.values:
            return None
        instance = self._chosen(_INSTANCE)
        milliseconds = self.get("pulltimeoutms", _positive)
        if milliseconds is not None:
            instance.setdefault("timeout", milliseconds / 1000)
        ca = self.of_client.get("tlsca")
        return ClientOptions(
            self.values["namesrv"],
            instance,
            self._chosen(_PRODUCER),
            _boolean("rocketmq.tls", self.of_client.get("tls", "true" if ca else "false")),
            ca,
        )

    def _chosen(self, table: Mapping[str, tuple[str, Callable[[str, str], Any]]]) -> dict[str, Any]:
        return {
            argument: convert(f"rocketmq.{_SHOWN.get(name, name)}", self.of_client[name])
            for name, (argument, convert) in table.items()
            if name in self.of_client
        }


def _unknown(name: str, known: frozenset[str]) -> str:
    near = get_close_matches(name, sorted(known), 1)
    return f"{name}: there is no such option" + (f", is it {_SHOWN.get(near[0], near[0])}?" if near else "")


def read_options(options: Mapping[str, str]) -> ReadOptions:
    named = _Named(options, _READ, {**_ALIASES, "topic": "subscribe"})
    if "path" in named.values:
        _check_of_store(named)
    found = ReadOptions(
        client=named.client(),
        path=named.get("path"),
        topics=named.get("subscribe", _names, ()),
        pattern=named.get("subscribepattern", _pattern),
        assigned=named.get("assign", _assigned, {}),
        start=_position(named, "starting"),
        end=_position(named, "ending"),
        min_partitions=named.get("minpartitions", _positive),
        max_offsets=named.get("maxoffsetspertrigger", _positive),
        fail_on_data_loss=named.get("failondataloss", _boolean, True),
        include_body=named.get("includebody", _boolean, True),
        selector=named.get("selector", default="*"),
        selector_type=named.get("selectortype", lambda _, text: text.upper(), "TAG"),
        group=named.get("groupid"),
        pull_batch=named.get("pullbatchsize", _positive, PULL_BATCH),
        push_filters=named.get("pushfilters", _boolean, False),
    )
    _check(found)
    _check_order(found.start or Position(), found.end or Position())
    return found


def _check_of_store(named: _Named) -> None:
    given = [*named.values, *(f"rocketmq.{name}" for name in named.of_client)]
    others = sorted(name for name in given if name not in _OF_STORE)
    if others:
        raise OptionError(
            f"path does not go with {_SHOWN.get(others[0], others[0])}, but with subscribe and selector; "
            "filter on columns for anything else"
        )


def _check(found: ReadOptions) -> None:
    chosen = [bool(found.topics), found.pattern is not None, bool(found.assigned)].count(True)
    if found.selector_type not in ("TAG", "SQL92"):
        raise OptionError(f"selectorType={found.selector_type}: TAG or SQL92 is expected")
    if found.path is not None:
        if found.selector_type != "TAG":
            raise OptionError("selectorType=SQL92 is for a broker; with path filter on the columns")
        return
    if chosen != 1:
        raise OptionError("exactly one of subscribe, subscribePattern, assign is expected, or path")
    if found.client is None:
        raise OptionError("namesrv is missing: host:port of the name server, several joined with ;")
    if found.selector_type == "SQL92":
        _check_expression(found.selector)


def _check_expression(selector: str) -> None:
    """Refuses an expression that does not parse: a broker would pass every message through it."""
    from codec.errors import SelectorError
    from codec.selector import Dialect, parse_sql92

    try:
        parse_sql92(selector, Dialect.V5)
    except SelectorError as error:
        raise OptionError(f"selector={selector}: {error}") from None


def _check_order(start: Position, end: Position) -> None:
    """Refuses a range that ends before it starts."""
    if start.time is not None and end.time is not None and end.time < start.time:
        raise OptionError(f"endingTimestamp={end.time} is before startingTimestamp={start.time}")
    for queue, offset in start.offsets.items():
        if 0 <= end.offsets.get(queue, LATEST) < offset:
            raise OptionError(
                f"endingOffsets: {queue} ends at {end.offsets[queue]}, before it starts at {offset}"
            )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    named = _Named(options, _WRITE, _ALIASES)
    client = named.client()
    if client is None:
        raise OptionError("namesrv is missing: host:port of the name server, several joined with ;")
    return WriteOptions(client, named.get("topic"), named.get("groupid", default="rmq"))


def _names(name: str, text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise OptionError(f"{name} names no topic")
    return found


def _pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"{name}={text}: not a regular expression: {error}") from None
    return text


def _assigned(name: str, text: str) -> Mapping[str, Mapping[str | None, tuple[int, ...]]]:
    """Parses `{"T":[0,1]}` or `{"T":{"broker-a":[0,1]}}`."""
    try:
        found: dict[str, dict[str | None, tuple[int, ...]]] = {
            topic: {broker: tuple(map(int, numbers)) for broker, numbers in _by_broker(value).items()}
            for topic, value in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise OptionError(f'{name}={text}: {{"topic":{{"broker-a":[0,1]}}}} is expected') from None
    if not found:
        raise OptionError(f"{name} names no topic")
    return found


def _by_broker(value: Any) -> Mapping[str | None, Any]:
    return {None: value} if isinstance(value, list) else value


def _position(named: _Named, side: str) -> Position | None:
    """Returns the most exact position given: one time, times by queue, or offsets."""
    time = named.get(f"{side}timestamp", _number)
    if time is not None:
        return Position(time=time)
    times = named.get(f"{side}offsetsbytimestamp", _by_queue)
    if times is not None:
        return Position(times=times)
    text = named.get(f"{side}offsets", default="").strip()
    words = {"": None, "earliest": Position(EARLIEST), "latest": Position(LATEST)}
    if text.lower() not in words:
        return Position(offsets=_by_queue(f"{side}Offsets", text))
    return words[text.lower()]


def _by_queue(name: str, text: str) -> dict[MessageQueue, int]:
    try:
        return queues_from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        expected = 'earliest, latest or {"topic":{"broker-a":{"0":23}}}'
        raise OptionError(f"{name}={text}: {expected} is expected") from None
