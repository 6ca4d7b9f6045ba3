"""The offsets that a commit stores with its files: where the next export continues.

They are JSON, in the metadata of a Delta commit or the summary of an Iceberg snapshot, as `rmq.offsets`. A
message is identified by broker, topic, queue and queue offset, wherever it was read, so that an export of a
store folder can be continued from the running cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rmqcli.export.errors import TableError
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import LastRow, Manifest, Origin, QueueSpan, StoreEntry, latest
from rmqcli.export.transform.transform import NOTHING, Transform

PROPERTY = "rmq.offsets"


class Batch(msgspec.Struct, frozen=True, rename="camel"):
    """The files of a run in the quarantine `table`. `chain` is the first such run on the main table."""

    chain: str
    run: str
    table: str
    files: list[str]


class Progress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The end of a table's content: queue offsets by topic, broker ("": unknown) and queue id.

    `run` identifies the export that made the commit. `commit_logs` are commit-log offsets, by store and
    selection of rows, before which a store need not be read again.
    """

    run: str
    tags: list[str] = []
    queues: dict[str, dict[str, dict[int, int]]] = {}
    commit_logs: dict[str, int] = {}
    sample: str | None = None
    masks: list[str] = []
    mask_key: str | None = None
    last: dict[str, dict[str, dict[int, tuple[int, int]]]] = {}
    """The last record of each queue: its queue offset and its commit-log offset."""
    required: list[str] | None = None
    """The fields of `value` that every schema so far required; None: bodies were never decoded."""
    batch: Batch | None = None
    """The last rows for the quarantine, as decided by this commit; they are added there after it."""
    done: dict[str, str] = {}
    """In a quarantine: the run of the last batch that was added, by chain."""

    @classmethod
    def read(cls, text: str, table: str) -> Progress:
        """Decode a string. Raises TableError if it is not such a document."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise TableError(
                f"{table}: {PROPERTY} of a commit was not written by rmq export: {error}"
            ) from error

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    def same_offsets(self, other: Progress | None) -> bool:
        return other is not None and (self.queues, self.commit_logs) == (other.queues, other.commit_logs)

    def manifest(self, origin: Origin, layout: Layout) -> Manifest:
        """Return the manifest that an export folder with the same rows would have, without files."""
        stores = [
            StoreEntry(one.path, one.broker_name, self.commit_logs.get(_log_key(origin, one), 0))
            for one in origin.stores
        ]
        spans = [
            QueueSpan(topic, broker or None, queue, 0, end, 0)
            for topic, brokers in self.queues.items()
            for broker, queues in brokers.items()
            for queue, end in queues.items()
        ]
        last = [
            LastRow(topic, broker or None, queue, *row)
            for topic, brokers in self.last.items()
            for broker, queues in brokers.items()
            for queue, row in queues.items()
        ]
        return msgspec.structs.replace(Manifest.empty(origin, layout), stores=stores, queues=spans, last=last)


def advanced(
    before: Progress | None,
    run: str,
    origin: Origin,
    spans: Iterable[QueueSpan],
    ends: Mapping[str, int | None],
    transform: Transform = NOTHING,
    last: Iterable[LastRow] = (),
) -> Progress:
    """Return the progress after a run with these spans.

    `ends` are commit-log offsets by the path of the store.
    """
    queues = {
        topic: {broker: dict(own) for broker, own in brokers.items()}
        for topic, brokers in (before.queues if before else {}).items()
    }
    for span in spans:
        own = queues.setdefault(span.topic, {}).setdefault(span.broker_name or "", {})
        own[span.queue_id] = max(own.get(span.queue_id, 0), span.end)
    lasts = {
        topic: {broker: dict(own) for broker, own in brokers.items()}
        for topic, brokers in (before.last if before else {}).items()
    }
    for row in latest(last):
        known = lasts.setdefault(row.topic, {}).setdefault(row.broker_name or "", {})
        known[row.queue_id] = max(known.get(row.queue_id, (0, 0)), (row.queue_offset, row.commit_log_offset))
    logs = dict(before.commit_logs) if before else {}
    for one in origin.stores:
        key = _log_key(origin, one)
        logs[key] = max(logs.get(key, 0), ends.get(one.path) or 0)
    logs = {key: end for key, end in logs.items() if end}
    required = _required(before.required if before else None, transform.required)
    return Progress(
        run,
        queues=queues,
        commit_logs=logs,
        last=lasts,
        required=required,
        batch=before.batch if before else None,
        **selection(origin, transform),
    )


def _required(before: list[str] | None, now: frozenset[str] | None) -> list[str] | None:
    if before is None:
        return None if now is None else sorted(now)
    return before if now is None else sorted(now.intersection(before))


SELECTION = {"tags": "--tag", "sample": "--sample", "masks": "--mask", "mask_key": "--mask-key-file"}
"""Members of `Progress` that all runs on a table must have in common, and their options."""


def selection(origin: Origin, transform: Transform) -> dict[str, Any]:
    """Return the values of these members for a run."""
    return {"tags": list(origin.tags), **{name: transform.summary[name] for name in list(SELECTION)[1:]}}


def _log_key(origin: Origin, store: StoreEntry) -> str:
    """Return the name of a selection of rows of a store."""
    queue = "*" if origin.queue_id is None else origin.queue_id
    return f"{store.broker_name or store.path}/{origin.topic or '*'}/{queue}"


def selection_text(value: Sequence[str] | str | None) -> str:
    return value if isinstance(value, str) else " || ".join(value or ()) or "none"
