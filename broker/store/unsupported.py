"""Detection of files that only a 5.x broker can serve. A folder with such files is refused, unless configured
otherwise.

Batch consume queues and compacted topics would be served as if they were ordinary ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rmqcli.broker.disk import Disk, backup_of
from rmqcli.broker.errors import StoreUnsupported
from rmqcli.codec.bodies.config import TopicConfigSerializeWrapper
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.errors import BodyError
from rmqcli.codec.store import consume_queue

_COMPACTED = ("cleanup.policy", "COMPACTION")


def refuse_unsupported(root: Path, disk: Disk) -> None:
    """Raise StoreUnsupported if a store has data that this broker does not serve; the text lists it.
    Blocks."""
    found = list(_topics(root, disk))
    if found:
        raise StoreUnsupported(
            f"{root} has what only the 5.x broker that wrote it serves: {'; '.join(found)}. "
            "Start with ignoreUnsupported=true to do without it"
        )


def batch_topics(root: Path, disk: Disk) -> frozenset[str]:
    """Return the topics with batch consume queues: an additional plain queue would prevent a 5.x broker from
    starting. Blocks.
    """
    return frozenset(_batch_topics(root, disk, _attributes(root, disk)))


def _attributes(root: Path, disk: Disk) -> dict[str, dict[str, str]]:
    table = _read(root / "config" / "topics.json", disk, TopicConfigSerializeWrapper)
    return {name: one.attributes or {} for name, one in table.topic_config_table.items()} if table else {}


def _batch_topics(root: Path, disk: Disk, attributes: dict[str, dict[str, str]]) -> set[str]:
    named = {
        name for name, one in attributes.items() if one.get(consume_queue.QUEUE_TYPE) == consume_queue.BATCH
    }
    return named | {folder.name for folder in disk.list(root / consume_queue.FOLDER)}


def _topics(root: Path, disk: Disk) -> Iterator[str]:
    attributes = _attributes(root, disk)
    batches = _batch_topics(root, disk, attributes)
    compacted = {name for name, one in attributes.items() if one.get(_COMPACTED[0]) == _COMPACTED[1]}
    if batches:
        yield f"batch consume queues of {', '.join(sorted(batches))}"
    if compacted:
        yield f"compacted topics {', '.join(sorted(compacted))}"


def _read(path: Path, disk: Disk, body: Any) -> Any:
    """Return a table, or its `.bak`; None if neither can be read; this is reported when the table is used."""
    for candidate in (path, backup_of(path)):
        with suppress(BodyError, FileNotFoundError):
            table = decode_table(body, disk.read(candidate))
            if table is not None:
                return table
    return None
