"""Inner batches: records of a 5.x broker that are several messages."""

from __future__ import annotations

from itertools import groupby

import pytest
from msgspec.structs import replace

from rmqcli.codec.errors import BodyError
from rmqcli.codec.inner_batch import INNER_BATCH, NEED_UNWRAP, unwrapped
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from tests.support import JavaStore


@pytest.fixture
def batches(store_five: JavaStore) -> list[MessageExt]:
    """The records of the topics with inner batches."""
    lines = store_five.of_kind("msg")
    topics = {line["topic"] for line in lines if line["sysFlag"] & INNER_BATCH}
    return [decode_record(store_five.commit_log, line["phy"]) for line in lines if line["topic"] in topics]


def test_the_messages_of_a_java_store(batches: list[MessageExt]) -> None:
    wrapped = [record for record in batches if record.sys_flag & INNER_BATCH]
    assert len(wrapped) == 5
    for record in wrapped:
        messages = unwrapped(record)
        assert len(messages) == int(record.properties["INNER_NUM"])
        assert messages[0].queue_offset == int(record.properties["INNER_BASE"])
        assert {message.sys_flag for message in messages} == {0}
        assert all(message.properties["UNIQ_KEY"] for message in messages)
    assert len(batches) == 15
    assert sum(len(unwrapped(record)) for record in batches) == 50


def test_their_queue_offsets_have_no_gaps(batches: list[MessageExt]) -> None:
    def queue_id(message: MessageExt) -> int:
        return message.queue_id

    found = [message for record in batches for message in unwrapped(record)]
    for _, messages in groupby(sorted(found, key=queue_id), queue_id):
        offsets = [message.queue_offset for message in messages]
        assert offsets == list(range(len(offsets)))


def test_a_pull_from_the_middle_leaves_out_what_is_before(batches: list[MessageExt]) -> None:
    record = next(record for record in batches if record.sys_flag & INNER_BATCH)
    begin = record.queue_offset + 2
    assert unwrapped(record, begin) == unwrapped(record)[2:]


def test_only_both_bits_make_an_inner_batch(batches: list[MessageExt]) -> None:
    record = next(record for record in batches if record.sys_flag & INNER_BATCH)
    for bit in (INNER_BATCH, NEED_UNWRAP):
        plain = replace(record, sys_flag=record.sys_flag & ~bit)
        assert unwrapped(plain) == [plain]
    with pytest.raises(BodyError):
        unwrapped(replace(record, body=record.body[:-1]))
