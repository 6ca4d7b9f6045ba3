"""A range, a tag or the end of an earlier export takes the messages of an inner batch one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.inner_batch import unwrapped
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from rmqcli.export import RowFilter, export_store
from tests.export.support import table_of
from tests.support import JavaStore

TOPIC = "FiveBatchCQ"
TOPICS = frozenset({TOPIC})
DONE = {(TOPIC, 0): 11, (TOPIC, 1): 20}


@pytest.mark.parametrize(
    ("rows", "is_wanted"),
    [
        (RowFilter(topics=TOPICS, begin=3, end=12), lambda one: 3 <= one.queue_offset < 12),
        (RowFilter(topics=TOPICS, begin=9), lambda one: one.queue_offset >= 9),
        (RowFilter(queue_id=1, end=1), lambda one: (one.queue_id, one.queue_offset) == (1, 0)),
        (RowFilter(topics=TOPICS, tags=frozenset({"B3"})), lambda one: one.tags == "B3"),
        (RowFilter(topics=TOPICS, done=DONE), lambda one: one.queue_offset >= (11, 20)[one.queue_id]),
    ],
    ids=["range", "begin", "queue", "tag", "done"],
)
def test_messages_of_inner_batches(
    store_five: JavaStore, tmp_path: Path, rows: RowFilter, is_wanted: Callable[[MessageExt], bool]
) -> None:
    export_store(store_five.root, tmp_path / "out", rows)
    table = table_of(tmp_path / "out").to_pylist()
    found = [(row["queue_id"], row["queue_offset"], row["msg_id"]) for row in table if row["topic"] == TOPIC]
    stored = [
        message
        for line in store_five.of_kind("msg")
        if line["topic"] == TOPIC
        for message in unwrapped(decode_record(store_five.commit_log, line["phy"], decompress=True))
    ]
    expected = [(one.queue_id, one.queue_offset, one.msg_id) for one in stored if is_wanted(one)]
    assert expected
    assert found == expected
