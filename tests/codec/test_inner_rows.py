"""Inner batches in columns are what they are as messages."""

from __future__ import annotations

from itertools import groupby

import pytest

from rmqcli.codec.inner_batch import INNER_BATCH, unwrapped
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.scan.arrow import inner_rows, scan_batches
from tests.support import JavaStore


@pytest.mark.parametrize("encoded", [False, True])
def test_the_rows_of_a_java_store(store_five: JavaStore, encoded: bool) -> None:
    lines = store_five.of_kind("msg")
    last = [line["phy"] for line in lines if line["sysFlag"] & INNER_BATCH][-1]
    file = store_five.commit_logs[last // (512 * 1024)]
    rows = [
        row for one in scan_batches(file.read_bytes(), encoded=encoded) for row in inner_rows(one).to_pylist()
    ]
    found = {at: list(some) for at, some in groupby(rows, lambda row: row["commit_log_offset"])}
    begin = int(file.name)
    records = [
        decode_record(store_five.commit_log, line["phy"], decompress=True)
        for line in lines
        if begin <= line["phy"] < begin + 512 * 1024
    ]
    assert list(found) == [record.commit_log_offset for record in records]
    for record in records:
        names = "queue_offset", "flag", "sys_flag", "msg_id", "tags", "keys", "body", "store_size"
        assert [tuple(row[name] for name in names) for row in found[record.commit_log_offset]] == [
            tuple(getattr(message, name) for name in names) for message in unwrapped(record)
        ]
        told = [dict(row["properties"]) for row in found[record.commit_log_offset]]
        assert told == [message.properties for message in unwrapped(record)]
    assert len(rows) > len(records)
