"""The walk over a batch agrees with the declaration of its items, on whatever bytes arrive."""

from __future__ import annotations

import pytest
from construct import GreedyRange
from hypothesis import example, given
from hypothesis import strategies as st

from rmqcli.codec.batch_item import BATCH_ITEM, ITEM_HEAD, SMALLEST_ITEM, TEXT_LENGTH
from rmqcli.codec.core.batch import Part, count_items, read_items
from rmqcli.codec.core.hashing import index_key_hash, index_seed, tags_code
from rmqcli.codec.core.record_writer import NO_LIMIT, QueueRun, Run
from rmqcli.codec.errors import BodyError
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.dispatch import index_keys
from rmqcli.codec.records.encoding import sized_topic

Item = tuple[int, bytes, bytes]
ITEMS = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.binary(max_size=6),
        st.sampled_from([b"", b"a\x01b", b"KEYS\x01k1 k2", b"TAGS\x01t\x02UNIQ_KEY\x010A\x02"]),
    ),
    max_size=6,
)
COMMON = st.sampled_from([b"", b"WAIT\x01true", b"TAGS\x01all\x02"])
HOST = bytes(8)


def encoded(items: list[Item]) -> bytes:
    return b"".join(
        ITEM_HEAD.pack(SMALLEST_ITEM + len(body) + len(text), 1, 2, flag, len(body))
        + (body + TEXT_LENGTH.pack(len(text)) + text)
        for flag, body, text in items
    )


def declared(data: bytes) -> list[Item] | None:
    """Return the items by the declaration; None if bytes are left."""
    parsed = GreedyRange(BATCH_ITEM).parse(data)
    items = [(one.flag, one.body, one.properties) for one in parsed]
    return (
        items if sum(SMALLEST_ITEM + len(body) + len(text) for _, body, text in items) == len(data) else None
    )


@given(ITEMS)
def test_items_are_read_as_they_were_written(items: list[Item]) -> None:
    data = encoded(items)
    assert read_items(data) == items == declared(data)
    assert count_items(data, 0, 99) == (len(items), len(data))


@given(ITEMS, st.integers(0), st.binary(max_size=6), st.integers(0, 6))
@example([(0, b"x", b"")], 0, b"\xff\xff\xff\xff", 4)
@example([(0, b"x", b"")], 0, b"\x7f\xff\xff\xff", 4)
@example([(0, b"x", b"")], 16, b"\xff\xff\xff\xff", 4)
@example([(0, b"x", b"")], 16, b"\x7f\xff\xff\xff", 4)
def test_hostile_bytes(items: list[Item], place: int, change: bytes, removed: int) -> None:
    data = encoded(items)
    at = place % (len(data) + 1)
    data = data[:at] + change + data[at + removed :]
    expected = declared(data)
    if expected is not None:
        assert read_items(data) == expected
        return
    for read in (
        read_items,
        lambda data: count_items(data, 0, 99),
        lambda data: taken(Part(data, b"", 0, 1)),
    ):
        with pytest.raises(BodyError):
            read(data)


def items_of(part: Part) -> list[Item]:
    """Flag, body and properties of each item, as they are stored."""
    queue = QueueRun("T", b"\x01T", 0, 0, 0, NO_LIMIT)
    part.store(Run(HOST, 0, 0), queue, 0, 0, HOST, 0, 0)
    items = read_items(part.data[part.begin : part.end])
    return [(flag, body, text) for (flag, body, _), text in zip(items, queue.texts, strict=True)]


def taken(part: Part) -> list[Item]:
    """Let a part take all items that are left."""
    while part.end < len(part.data):
        if part.read(99, 1 << 20, 8):
            part.take(b"a\x01b")
    return items_of(part)


@given(ITEMS, COMMON, st.integers(1, 40))
def test_a_part_has_the_items_with_the_text_of_the_batch(items: list[Item], common: bytes, step: int) -> None:
    part = Part(encoded(items), common, 0, index_seed("T"))
    while part.end < len(part.data):
        assert part.read(99, 1 << 20, step) == 0
    for (flag, body, own), found in zip(items, items_of(part), strict=True):
        assert found[:2] == (flag, body)
        assert [pair for pair in found[2].split(b"\x02") if pair] == [
            pair for text in (own, common) for pair in text.split(b"\x02") if pair
        ]


@given(ITEMS, COMMON, st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_part_is_stored_as_its_messages_one_by_one(
    items: list[Item], common: bytes, queue_offset: int, begin: int
) -> None:
    part = Part(encoded(items), common, 0, index_seed("T"))
    taken(part)
    runs = [Run(HOST, begin, 12) for _ in range(2)]
    queues = [QueueRun("T", sized_topic(b"T"), index_seed("T"), 3, queue_offset, NO_LIMIT) for _ in runs]
    part.store(runs[0], queues[0], 0, 11, HOST, 0, 0)
    for flag, body, text in items_of(part):
        properties = decode_properties(text)
        hashes = [index_key_hash("T", key) for key in index_keys(properties)]
        code = tags_code(properties.get("TAGS"))
        runs[1].add(queues[1], flag, 0, 11, HOST, 0, 0, body, text, code, hashes)
    one, other = (
        (run.records(), run.items, queue.sizes, queue.codes, queue.offsets, queue.texts)
        for run, queue in zip(runs, queues, strict=True)
    )
    assert one == other


def test_a_part_ends_with_the_message_that_fills_it() -> None:
    data = encoded([(0, b"x" * 10, b"")] * 5)
    by_count, by_size = Part(data, b"", 0, 1), Part(data, b"", 0, 1)
    by_count.read(2, 1 << 20, 1 << 20)
    by_size.read(99, 25, 1 << 20)
    assert (by_count.count, by_size.count) == (2, 3)
