"""The tables that a broker saves next to its messages: checkpoint and `config/*.json`.

As in a broker, a table that is missing, empty or unreadable is read from its `.bak`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from rmqcli.codec.bodies.base import read_json
from rmqcli.codec.bodies.config import (
    DeletedTopics,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rmqcli.codec.bodies.filters import ConsumerFilterManager
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.errors import BodyError, CorruptionError
from rmqcli.codec.store.checkpoint import (
    FILE_SIZE,
    Checkpoint,
    SafePoint,
    decode_checkpoint,
    decode_safe_point,
)
from rmqcli.store.read.files import DamagedFile, NamedFile, naming_damage

Table = TypeVar("Table")
Read = Callable[[Path], bytes]
"""Reads a whole file. Raises FileNotFoundError."""

_TABLES: dict[str, type] = {
    "topics.json": TopicConfigSerializeWrapper,
    "subscriptionGroup.json": SubscriptionGroupWrapper,
    "consumerOffset.json": ConsumerOffsetSerializeWrapper,
    "delayOffset.json": DelayOffsetSerializeWrapper,
    "consumerFilter.json": ConsumerFilterManager,
    "deletedTopics.json": DeletedTopics,
}
_JSON = (
    "consumerOrderInfo.json",
    "messageRequestMode.json",
    "topicQueueMapping.json",
    "timermetrics",
    "transactionMetrics",
)
"""Tables that exist only in 5.x."""
TABLES = (*_TABLES, *_JSON)
_MEMBERS = {
    "consumerOrderInfo.json": "table",
    "messageRequestMode.json": "messageRequestModeMap",
    "timermetrics": "timingCount",
    "transactionMetrics": "transactionCount",
}
"""The member that contains the table. A file without it is damaged, or is another table."""


_MISSING, _EMPTY = "missing", "empty"
_MARKS = ("commitlog", "consumequeue", "config", "checkpoint", "abort", "lock")
"""Names that identify a store folder. A broker without topics has only the last two."""


class GroupOffset(NamedTuple):
    """The offset up to which a group has consumed a queue."""

    group: str
    topic: str
    queue_id: int
    offset: int


def store_folder(path: Path) -> Path:
    """Return `path` if it is a store folder. Raises FileNotFoundError if not."""
    if _is_store(path):
        return path
    # Raises the plain error first if nothing is at this path.
    path.stat()
    text = "not a store folder: no commitlog, consumequeue, config or checkpoint is in it"
    around = next((folder for folder in path.resolve().parents if _is_store(folder)), None)
    raise FileNotFoundError(2, text if around is None else f"a part of a store: name {around}", str(path))


def _is_store(path: Path) -> bool:
    return any((path / name).exists() for name in _MARKS)


def read_checkpoint(store: Path) -> Checkpoint | None:
    """Read a checkpoint file, or that of a store; None if missing. Raises DamagedFile."""
    return _read_checkpoint(store, decode_checkpoint)


def read_safe_point(store: Path) -> SafePoint | None:
    """Read the part of the checkpoint file that only rmq's broker writes; None if missing.

    Raises DamagedFile.
    """
    return _read_checkpoint(store, decode_safe_point)


def _read_checkpoint(store: Path, decode: Callable[[bytes], Table | None]) -> Table | None:
    path = store / "checkpoint" if store.is_dir() else store
    if store.is_dir() and not path.exists():
        return None
    with naming_damage(NamedFile(path, None, 0)):
        data = path.read_bytes()
        if not store.is_dir() and len(data) != FILE_SIZE:
            raise CorruptionError(f"{len(data):,} bytes: a checkpoint has {FILE_SIZE:,}", 0)
        return decode(data)


def topics(store: Path, read: Read = Path.read_bytes) -> dict[str, TopicConfig]:
    """Read topics.json; {} if missing."""
    return dict(_load(store, "topics.json", TopicConfigSerializeWrapper(), read).topic_config_table)


def deleted_topics(store: Path, read: Read = Path.read_bytes) -> dict[str, int]:
    """Read deletedTopics.json: topic → the commit-log offset before which no record belongs to the topic.

    Returns {} if it cannot be read.
    """
    try:
        return dict(_load(store, "deletedTopics.json", DeletedTopics(), read).deleted_topics)
    except DamagedFile:
        return {}


def groups(store: Path) -> dict[str, SubscriptionGroupConfig]:
    """Read subscriptionGroup.json; {} if missing."""
    return dict(_load(store, "subscriptionGroup.json", SubscriptionGroupWrapper()).subscription_group_table)


def group_offsets(store: Path, read: Read = Path.read_bytes) -> list[GroupOffset]:
    """Read consumerOffset.json, sorted by group, topic and queue."""
    table = _load(store, "consumerOffset.json", ConsumerOffsetSerializeWrapper(), read).offset_table
    found = []
    for name, queues in table.items():
        topic, _, group = name.partition("@")
        found += [GroupOffset(group, topic, queue_id, offset) for queue_id, offset in queues.items()]
    return sorted(found)


def delay_offsets(store: Path, read: Read = Path.read_bytes) -> dict[int, int]:
    """Read delayOffset.json: level → the queue offset of the next message to deliver."""
    return dict(_load(store, "delayOffset.json", DelayOffsetSerializeWrapper(), read).offset_table)


def _load(store: Path, name: str, empty: Table, read: Read = Path.read_bytes) -> Table:
    """Read a table of a store, or a table file.

    Raises FileNotFoundError if the file is another table, and DamagedFile.
    """
    if store.name.removesuffix(".bak") in _TABLES.keys() - {name} and store.is_file():
        raise FileNotFoundError(2, f"this is not {name}", str(store))
    path = store / "config" / name if store.is_dir() else store
    problem: DamagedFile | None = None
    for candidate in (path, _backup(path)):
        try:
            table = decode_table(type(empty), read(candidate))
            if table is not None:
                return table
        except FileNotFoundError:
            if not store.is_dir() and candidate == path:
                raise
        except BodyError as error:
            # The damage of the table itself is reported, not that of its `.bak`.
            problem = problem or DamagedFile(candidate, CorruptionError(str(error)))
    if problem is not None:
        raise problem
    return empty


def _require_member(name: str, data: bytes) -> None:
    """Raise BodyError for a file that is not a JSON object, or that has members but not that of its table."""
    found, member = read_json(data), _MEMBERS.get(name)
    if not isinstance(found, dict) or (
        found and member is not None and not isinstance(found.get(member), dict)
    ):
        raise BodyError(f"no table {member or name} in it")


class TableFile(NamedTuple):
    """The file of a table or its `.bak`.

    `problem` is None for a sound one, otherwise "missing", "empty" or the damage.
    """

    path: Path
    problem: str | None

    @property
    def is_sound(self) -> bool:
        return self.problem is None

    @property
    def is_missing(self) -> bool:
        return self.problem == _MISSING

    @property
    def is_empty(self) -> bool:
        return self.problem == _EMPTY

    @property
    def is_damaged(self) -> bool:
        return self.problem not in (None, _MISSING, _EMPTY)


def table_files(store: Path, name: str, read: Read = Path.read_bytes) -> tuple[TableFile, TableFile]:
    """Read a table of TABLES and its `.bak`."""
    path = store / "config" / name
    return _table_file(path, name, read), _table_file(_backup(path), name, read)


def backup_in_use(store: Path, name: str) -> TableFile | None:
    """Return the file of a table of TABLES if it is not sound and its `.bak` is read instead.

    `store` may be the file.
    """
    path = store / "config" / name if store.is_dir() else store
    file = _table_file(path, name)
    return None if file.is_sound or not _table_file(_backup(path), name).is_sound else file


def _backup(path: Path) -> Path:
    return path.with_name(f"{path.name}.bak")


def _table_file(path: Path, name: str, read: Read = Path.read_bytes) -> TableFile:
    try:
        data = read(path)
        if name in _TABLES:
            return TableFile(path, _EMPTY if decode_table(_TABLES[name], data) is None else None)
        if not data.strip():
            return TableFile(path, _EMPTY)
        _require_member(name, data)
    except FileNotFoundError:
        return TableFile(path, _MISSING)
    except BodyError as error:
        return TableFile(path, str(error))
    return TableFile(path, None)


# Tables that brokers of 5.x keep in RocksDB (`storeType=defaultRocksDB`), in folders below `config`.
#
# Names and values are UTF-8 and JSON, in the default column family (5.3.3 `ConfigRocksDBStorage`). The
# library writes a file beside a database that it opens for reading, so it gets a temporary folder with links
# to the files; the store is not changed, and may be that of a running broker.

FOLDERS: Final[Mapping[str, str]] = {
    "topics": "topics",
    "groups": "subscriptionGroups",
    "offsets": "consumerOffsets",
}
"""Our names for the tables, with the names of their folders."""
_CURRENT: Final = "CURRENT"
"""A file that every RocksDB database contains."""


def find_tables(path: Path) -> dict[str, Path]:
    """Return the folders of the tables in a store folder, in its `config`, or at `path` itself.

    Returns an empty dict if there are none.
    """
    if (path / _CURRENT).is_file():
        return {next((word for word, name in FOLDERS.items() if name == path.name), path.name): path}
    places = [path / "config", path]
    found = ((word, place / name) for place in places for word, name in FOLDERS.items())
    return {word: folder for word, folder in found if (folder / _CURRENT).is_file()}


def read_entries(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a table, sorted by name.

    Raises ImportError without the library, CorruptionError if the folder is not such a table.
    """
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory(prefix="rmq-rocksdb-") as links:
        for file in folder.iterdir():
            (Path(links) / file.name).symlink_to(file.resolve())
        options = Options(raw_mode=True)
        try:
            families = dict.fromkeys(Rdict.list_cf(links, options), options)
            database: Any = Rdict(links, options, families, AccessType.read_only())
        except Exception as error:  # the library has no exception type for RocksDB's errors
            raise CorruptionError(f"{folder}: no RocksDB that can be read: {error}") from None
        try:
            for name, value in database.items():
                yield _decoded(folder, name, value)
        finally:
            database.close()


def _decoded(folder: Path, name: bytes, value: bytes) -> tuple[str, Any]:
    try:
        return name.decode(), json.loads(value)
    except ValueError as error:
        raise CorruptionError(f"{folder}: the value of {name!r} is no JSON: {error}") from None
