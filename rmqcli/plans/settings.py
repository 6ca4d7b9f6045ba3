"""Settings of topics and groups from a file: its entries, the plan of changes, and its application.

A file is JSON or YAML: a list of objects with the names of Java's `TopicConfig` or `SubscriptionGroupConfig`,
as mqadmin's `updateTopicList` and `updateSubGroupList` read them, or such a list as `topics` or `groups` of
an object. `name` is a synonym of `topicName` or `groupName`, `queues` sets read and write queues, and `perm`
may be a string (`rw`). Settings that an entry does not contain are kept; a new topic has 8 queues. Nothing is
deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.codes import Perm
from rmqcli.codec.edited import unmarked
from rmqcli.codec.message import check_group, check_topic
from rmqcli.codec.names import is_system_group, is_system_topic
from rmqcli.flows.errors import InvalidInput
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin

Config: TypeAlias = TopicConfig | SubscriptionGroupConfig
Tables: TypeAlias = "Mapping[str, Mapping[str, Config]]"

_PERMS = {"-": 0, "w": 2, "r": 4, "rw": 6}
_BOTH_QUEUES = ("readQueueNums", "writeQueueNums")


class Kind(NamedTuple):
    """The kind of entry that a file lists: `topic` or `group`, its struct, the member with its name, and the
    values of a new one.
    """

    word: Literal["topic", "group"]
    struct: type[TopicConfig] | type[SubscriptionGroupConfig]
    key: str
    new: Mapping[str, Any]

    def check(self, name: str) -> None:
        """Raise ValueError for a name that no application can have."""
        check, is_system = (
            (check_topic, is_system_topic) if self.word == "topic" else (check_group, is_system_group)
        )
        check(name)
        if is_system(name):
            raise ValueError(f"{name} is a system {self.word}")


TOPICS = Kind("topic", TopicConfig, "topicName", {"read_queue_nums": 8, "write_queue_nums": 8})
GROUPS = Kind("group", SubscriptionGroupConfig, "groupName", {})


class Entry(NamedTuple):
    """One entry: the given values by field of the struct."""

    name: str
    given: Mapping[str, Any]


class Step(NamedTuple):
    """The change of one entry on one broker. `changes` are strings such as `perm 6 → 4`."""

    name: str
    broker_name: str
    action: Literal["create", "change", "same"]
    changes: tuple[str, ...]
    config: Config
    attributes: str | None = None


def read_entries(path: Path, kind: Kind) -> list[Entry]:
    """Return the entries in their order. Raise InvalidInput, which names the invalid entry and member."""
    content = _content(path)
    if isinstance(content, dict):
        content = content.get(f"{kind.word}s")
    if not isinstance(content, list) or not content:
        raise InvalidInput(f"{path}: a list of {kind.word}s is expected")
    entries = [_entry(f"{path}: {kind.word} {place}", item, kind) for place, item in enumerate(content, 1)]
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{path}: {kind.word} {name} is listed twice")
    return entries


def _content(path: Path) -> Any:
    try:
        data = unmarked(path.read_bytes())
    except ValueError as error:
        raise InvalidInput(f"{path}: {error}") from None
    if data.lstrip()[:1] in (b"[", b"{"):
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{path}: {error}") from None
    import yaml

    try:
        return yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path}: {' '.join(str(error).split())}") from None


def _entry(where: str, item: object, kind: Kind) -> Entry:
    if not isinstance(item, dict):
        raise InvalidInput(f"{where}: an object is expected")
    return entry_of(where, _plain(dict(item), kind), kind)


def entry_of(where: str, members: dict[str, Any], kind: Kind) -> Entry:
    """Return the entry of an object with Java's names. Raise InvalidInput, which begins with `where`, for an
    invalid object.
    """
    name = members.pop(kind.key, None)
    if not isinstance(name, str):
        raise InvalidInput(f"{where}: {kind.key} is missing")
    try:
        kind.check(name)
    except ValueError as error:
        raise InvalidInput(f"{where}: {error}") from None
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind.struct)}
    given = {}
    for member, value in members.items():
        if member not in fields:
            raise InvalidInput(f"{where} ({name}): unknown member {member!r}")
        try:
            given[fields[member].name] = msgspec.convert(value, fields[member].type)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{where} ({name}): {member}: {error}") from None
    return Entry(name, given)


def _plain(members: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the members with Java's names only."""
    if "name" in members:
        members[kind.key] = members.pop("name")
    if kind.word == "topic" and "queues" in members:
        # Numbers of read or write queues take precedence over `queues`.
        members |= dict.fromkeys(_BOTH_QUEUES, members.pop("queues")) | {
            name: members[name] for name in _BOTH_QUEUES if name in members
        }
    if kind.word == "topic" and isinstance(members.get("perm"), str):
        members["perm"] = _PERMS.get(members["perm"], members["perm"])
    return members


def planned(entries: Sequence[Entry], kind: Kind, tables: Tables) -> list[Step]:
    """Return one step for each entry and broker of `tables` (broker name → name → configuration)."""
    return [
        _step(entry, kind, broker, table.get(entry.name))
        for entry in entries
        for broker, table in sorted(tables.items())
    ]


def _step(entry: Entry, kind: Kind, broker: str, found: Config | None) -> Step:
    given = dict(entry.given)
    attributes = given.pop("attributes", None) if kind.word == "topic" else None
    text = _attributes_text(attributes or {}, getattr(found, "attributes", None) or {})
    if found is None:
        base = {msgspec.structs.fields(kind.struct)[0].name: entry.name}
        config = kind.struct(**base | dict(kind.new) | given)
        changes = [f"{name} {_text(value)}" for name, value in _shown(config, given)]
    else:
        config = msgspec.structs.replace(found, **given)
        before = dict(_shown(found, given))
        changes = [
            f"{name} {_text(before[name])} → {_text(value)}"
            for name, value in _shown(config, given)
            if value != before[name]
        ]
    if text:
        changes.append(text)
    action: Literal["create", "change", "same"] = (
        "create" if found is None else "change" if changes else "same"
    )
    return Step(entry.name, broker, action, tuple(changes), config, text or None)


def _shown(config: Config, given: Mapping[str, Any]) -> list[tuple[str, Any]]:
    names = {field.name: field.encode_name for field in msgspec.structs.fields(config)}
    return [(names[field], getattr(config, field)) for field in given]


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _attributes_text(wanted: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Return Java's text of the attributes that differ: `+key=value` sets one, `-key` removes it."""
    parts = []
    for key, value in wanted.items():
        name = key.lstrip("+-")
        if key.startswith("-"):
            parts += [f"-{name}"] if name in found else []
        elif found.get(name) != value:
            parts.append(f"+{name}={value}")
    return ",".join(parts)


async def carry_out(admin: Admin, step: Step) -> None:
    """Put the settings of one entry on its broker; raise ClientError."""
    if isinstance(step.config, TopicConfig):
        await admin.topics.put(step.config, step.broker_name, step.attributes)
        return
    made = await admin.groups.create(step.config, brokers=[step.broker_name])
    for error in made.failures.values():
        raise error


async def hidden(admin: Admin, steps: Sequence[Step], tables: Tables) -> list[str]:
    """Return the messages that consumers will no longer see, by topic and broker."""
    found = []
    for step in steps:
        old = tables[step.broker_name].get(step.name)
        if not isinstance(old, TopicConfig) or not isinstance(step.config, TopicConfig):
            continue
        readable = bool(step.config.perm & Perm.READ) or not old.perm & Perm.READ
        queues = step.config.read_queue_nums if readable else 0
        if queues < old.read_queue_nums:
            unseen = await admin.topics.hidden(step.name, queues, brokers=[step.broker_name])
            if unseen:
                count = many(sum(unseen.values()), "message")
                found.append(f"{step.name} on {step.broker_name}: {count}, which consumers will not see")
    return found
