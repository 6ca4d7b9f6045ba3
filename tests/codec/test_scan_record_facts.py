"""What queue entries and index items take from properties: of many records at once, and of each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from codec.properties import PropertyName, decode_properties
from codec.scan.columns import fixed_columns
from codec.scan.property_shapes import LEAST_ROWS
from codec.scan.record_facts import RecordFacts, record_facts
from codec.scan.walk import scan_positions
from codec.store.dispatch import entry_tags_code, index_hashes
from codec.store.record import scan_record
from tests.codec.samples import make_record

COMMON = b"KEYS\x01k%04d\x02UNIQ_KEY\x01C0000202%04d\x02TAGS\x01TagA\x02"
UNUSUAL = {
    "no properties": {"properties": b""},
    "no keys": {"properties": b"TAGS\x01TagB"},
    "a key of blanks": {"properties": b"KEYS\x01a b \x02UNIQ_KEY\x01C"},
    "a blank in a key of a common length": {"properties": COMMON.replace(b"k%04d", b"k%02d l") % (7, 7)},
    "a tag that is not ASCII": {"properties": "TAGS\x01\u00fc\x02KEYS\x01k\u4e2d".encode()},
    "a topic that is not ASCII": {"topic": "\u4e2d".encode(), "properties": COMMON % (1, 2)},
    "a name twice": {"properties": b"TAGS\x01a\x02TAGS\x01b\x02KEYS\x01c\x02KEYS\x01d"},
    "a name end in a value": {"properties": b"KEYS\x01a\x01b\x02TAGS\x01c\x01d"},
    "an empty value": {"properties": b"TAGS\x01\x02KEYS\x01\x02UNIQ_KEY\x01u"},
    "another topic": {"topic": b"%RETRY%group", "properties": COMMON % (3, 4)},
}


def facts_of(data: bytes) -> RecordFacts | None:
    view = memoryview(data)
    return record_facts(view, fixed_columns(view, scan_positions(view).positions))


def with_common(unusual: list[bytes]) -> bytes:
    """Puts records between as many of a common shape as are read by columns."""
    common = [make_record(properties=COMMON % (number, number)) for number in range(4 * LEAST_ROWS)]
    return b"".join([*common[:700], *unusual, *common[700:]])


@pytest.mark.parametrize("name", [*UNUSUAL, "all"])
def test_both_ways_find_the_same(name: str) -> None:
    chosen = UNUSUAL.values() if name == "all" else [UNUSUAL[name]]
    data = with_common([make_record(**changes) for changes in chosen])
    facts = facts_of(data)
    assert facts is not None
    pairs = sorted(zip(facts.key_rows.tolist(), facts.key_hashes.tolist(), strict=True))
    codes, expected = [], []
    for number, position in enumerate(scan_positions(data).positions.tolist()):
        record = scan_record(data, position)
        properties = decode_properties(record.properties)
        codes.append(entry_tags_code("TopicA", properties, 0))
        expected += [(number, hashed) for hashed in index_hashes(record, properties)]
    assert facts.tags_codes.tolist() == codes
    assert pairs == sorted(expected)


@pytest.mark.parametrize("text", [b"a", b"\x01b\x02", b"TAGS\x01\xff"])
def test_properties_that_do_not_parse(text: bytes) -> None:
    assert facts_of(with_common([make_record(properties=text)])) is None
    assert facts_of(make_record(properties=text)) is None


def test_no_records() -> None:
    view = memoryview(make_record())
    facts = record_facts(view, fixed_columns(view, np.empty(0, np.int64)))
    assert facts is not None
    assert [len(column) for column in facts] == [0, 0, 0]


def test_names_of_properties() -> None:
    assert COMMON.count(PropertyName.UNIQ_KEY.encode()) == 1
