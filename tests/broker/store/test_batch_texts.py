"""The properties of a batch's messages are read as if each was read alone."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.errors import IllegalBatch
from broker.store.batch_texts import BatchText, BatchTexts, texts_of
from broker.store.text_layouts import MOST_HASHED, TextColumns
from codec.errors import LocalProtocolError
from codec.hashing import index_key_hash, tags_code

TOPIC = "Topic"
COMMON = (b"", b"WAIT\x01true", b"TAGS\x01all\x02", b"UNIQ_KEY\x01whole")
VALUES = st.sampled_from(
    ["0A0B", "0a0D", "A\0\nC", "A\x01BC", "A\x02BC", "AB\x02\x01", "A BC", "ABé", "", "x"]
)
PAIRS = st.sampled_from(
    [
        "TAGS\x01paid",
        "TAGS\x01open",
        "KEYS\x01k1 k2",
        "a\x01UNIQ_KEY\x01b",
        "XUNIQ_KEY\x010A0B",
        "UNIQ_KEY\x010A0C",
        "\x01v",
        "n",
        "n\x01",
        "",
    ]
)
FRAMES = st.tuples(
    st.lists(PAIRS, max_size=2).map("\x02".join),
    st.sampled_from(["UNIQ_KEY\x01", "\x02UNIQ_KEY\x01", "XUNIQ_KEY\x01", ""]),
    st.lists(PAIRS, max_size=2).map(lambda pairs: "".join(f"\x02{pair}" for pair in pairs)),
)
BATCHES = st.lists(FRAMES, min_size=1, max_size=3).flatmap(
    lambda frames: st.lists(st.tuples(st.sampled_from(frames), VALUES), min_size=2, max_size=8)
)
"""Texts that often differ in their values only."""


@settings(max_examples=400)
@given(BATCHES, st.sampled_from(COMMON))
def test_as_each_alone(batch: list[tuple[tuple[str, str, str], str]], common: bytes) -> None:
    texts = BatchTexts(common)
    for (before, name, after), value in batch:
        text = before + name + value + after
        assert outcome(texts, text) == outcome(BatchTexts(common), text)


def rows(columns: TextColumns) -> list[BatchText]:
    assert columns.hashes is not None
    left = iter(columns.hashes)
    hashes = [tuple(islice(left, count)) for count in columns.counts]
    assert list(left) == []
    return list(zip(columns.texts, columns.codes, hashes, strict=True))


def outcome(texts: BatchTexts, text: str) -> BatchText | str:
    try:
        return texts.read(text.encode(), TOPIC)
    except (IllegalBatch, LocalProtocolError) as error:
        return str(error)


@settings(max_examples=200)
@given(BATCHES, st.sampled_from(COMMON))
def test_texts_that_are_alike_are_read_together_as_each_alone(
    batch: list[tuple[tuple[str, str, str], str]], common: bytes
) -> None:
    owns = [(before + name + value + after).encode() for (before, name, after), value in batch]
    texts = BatchTexts(common)
    outcome(texts, owns[0].decode(errors="replace"))
    alike = texts.read_alike(owns, TOPIC)
    assert alike is None or rows(alike) == [BatchTexts(common).read(own, TOPIC) for own in owns]


NAMES = st.lists(st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "n", "é"]), min_size=1, unique=True)
PRINTABLE = st.sampled_from(["0A0B", "k1", " ", " k2  k3 ", "UNIQ_KEY", "~" * 20])
SHAPED = st.tuples(NAMES, st.sampled_from(["", "\x02"])).flatmap(
    lambda shape: st.lists(
        st.lists(PRINTABLE, min_size=len(shape[0]), max_size=len(shape[0])).map(
            lambda values: "\x02".join(map("\x01".join, zip(shape[0], values, strict=True))) + shape[1]
        ),
        min_size=2,
        max_size=8,
    )
)


@settings(max_examples=200)
@given(SHAPED, st.sampled_from(COMMON), VALUES)
def test_texts_with_the_same_names_are_read_together_as_each_alone(
    batch: list[str], common: bytes, odd: str
) -> None:
    owns = [own.encode() for own in batch]
    texts = BatchTexts(common)
    outcome(texts, batch[0])
    together = texts.read_alike(owns, TOPIC)
    alone = [BatchTexts(common).read(own, TOPIC) for own in owns]
    assert together is not None
    assert rows(together) == alone
    broken = owns[-1].replace(b"\x01", b"\x01" + odd.encode(), 1)
    later = texts.read_alike((broken,), TOPIC)
    assert later is None or rows(later) == [BatchTexts(common).read(broken, TOPIC)]


LONG = b"\x02".join([b"n%d\x01v" % n for n in range(17)])


@pytest.mark.parametrize("own", [b"a\x01b\x02a\x01c", LONG, b"a\x01" + b"b" * 1024])
def test_a_text_without_a_layout_is_read_alone(own: bytes) -> None:
    texts = BatchTexts(b"")
    texts.read(own, TOPIC)
    assert texts.read_alike((own, own), TOPIC) is None


@pytest.mark.parametrize("own", [b"", b"a\x01", b"UNIQ_KEY\x01", b"n\x01v\x02TAGS\x01\x02"])
def test_equal_texts_are_read_together(own: bytes) -> None:
    texts = BatchTexts(b"WAIT\x01true")
    found = texts.read(own, TOPIC)
    together = texts.read_alike((own, own), TOPIC)
    assert together is not None
    assert rows(together) == [found, found]


def test_a_client_that_sets_keys_and_one_of_several_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of a length each are cut out of the texts; others, and keys with spaces, found by the names."""
    texts = BatchTexts(b"WAIT\x01true")
    layout = b"KEYS\x01%b\x02UNIQ_KEY\x01%032X\x02WAIT\x01true\x02TAGS\x01%b"
    texts.read(layout % (b"1795705477", 0, b"tag1"), TOPIC)
    monkeypatch.setattr("broker.store.batch_texts.decode_properties", None)
    for values in (
        [(b"1795705477", 0xFFFF, b"tag1"), (b"1795705478", 0x10000, b"tag2")],
        [(b"1795705477", 0xFFFE, b"tag1"), (b"1795705477", 0xFFFF, b"tag1")],
        [(b"17957 5477", 0xFFFE, b"tag1"), (b"179570 477", 0xFFFF, b"tag1")],
        [(b"k", 1, b"paid"), (b"key k", 2, b"open ")],
    ):
        together = texts.read_alike([layout % value for value in values], TOPIC)
        assert together is not None
        for (keys, unique, tags), (text, code, hashes) in zip(values, rows(together), strict=True):
            assert text == layout % (keys, unique, tags) + b"\x02WAIT\x01true"
            assert code == tags_code(tags.decode())
            names = [f"{unique:032X}", *keys.decode().split()]
            assert hashes == tuple(index_key_hash(TOPIC, name) for name in names)


ODD = [
    b"a\x01bcdefghi",
    b"a\x02bcdefghi",
    b"a\x02\x01cdefghi",
    b"abcdefgh\x02\x01",
    b"u1234567\xc3\xa9",
    b"u1234567\xff\xfe",
]
"""Ten bytes, like a sound value; what is around it reads otherwise, or it is no ASCII."""


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("which", [{0}, {2}, {0, 1, 2}])
def test_a_value_that_changes_how_the_rest_reads(odd: bytes, place: int, which: set[int]) -> None:
    """In any place, in the first text, a later one, or in all."""
    layout = b"KEYS\x01%b\x02UNIQ_KEY\x01%b\x02TAGS\x01%b"
    texts = BatchTexts(b"WAIT\x01true")
    texts.read(layout % (b"k123456789", b"u123456789", b"t123456789"), TOPIC)
    owns = []
    for number in range(3):
        values = [b"k123456789", b"u12345678%d" % number, b"t12345678%d" % number]
        if number in which:
            values[place] = odd
        owns.append(layout % tuple(values))
    alike = texts.read_alike(owns, TOPIC)
    assert alike is None or rows(alike) == [BatchTexts(b"WAIT\x01true").read(own, TOPIC) for own in owns]


def test_a_text_like_the_one_before_is_read_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = BatchTexts(b"WAIT\x01true")
    texts.read(b"UNIQ_KEY\x010A\x02TAGS\x01t", TOPIC)
    monkeypatch.setattr("broker.store.batch_texts.decode_properties", None)
    stored, code, hashes = texts.read(b"UNIQ_KEY\x010B\x02TAGS\x01t", TOPIC)
    assert stored == b"UNIQ_KEY\x010B\x02TAGS\x01t\x02WAIT\x01true"
    assert (code, hashes) == (tags_code("t"), (index_key_hash(TOPIC, "0B"),))
    both = texts.read_alike([b"UNIQ_KEY\x010C\x02TAGS\x01t", b"UNIQ_KEY\x010D\x02TAGS\x01t"], TOPIC)
    assert both is not None
    assert both.hashes == [index_key_hash(TOPIC, "0C"), index_key_hash(TOPIC, "0D")]


def test_a_batch_of_different_texts_is_not_learned_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = BatchTexts(b"")
    for number in range(4):
        texts.read(b"UNIQ_KEY\x010A\x02n%d\x01v" % number, TOPIC)
    monkeypatch.setattr(BatchTexts, "_learned", None)
    hashes = texts.read(b"KEYS\x01k\x02UNIQ_KEY\x01u", TOPIC)[2]
    assert hashes == (index_key_hash(TOPIC, "u"), index_key_hash(TOPIC, "k"))


def test_a_batch_like_the_one_before_is_read_by_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    common = b"WAIT\x01true"
    for number in range(5):  # misses of a batch do not count for the next
        texts_of(common).read(b"KEYS\x01%d" % number, TOPIC)
    texts_of(common).read(b"UNIQ_KEY\x010A\x02TAGS\x01t", TOPIC)
    monkeypatch.setattr("broker.store.batch_texts.decode_properties", None)
    read = texts_of(common).read_alike([b"UNIQ_KEY\x010B\x02TAGS\x01t"], TOPIC)
    stored, key_hash = b"UNIQ_KEY\x010B\x02TAGS\x01t\x02WAIT\x01true", index_key_hash(TOPIC, "0B")
    assert read == ([stored], [tags_code("t")], [key_hash], [1])


@pytest.mark.parametrize("count", [1, 20, 300])
def test_keys_of_long_texts_are_not_hashed_at_once(count: int) -> None:
    """Thousands of keys take milliseconds: the index gets them later."""
    texts, keys = BatchTexts(b""), " ".join(f"{key:03}" for key in range(200))
    owns = [f"UNIQ_KEY\x01{n:032X}\x02KEYS\x01{keys}".encode() for n in range(count)]
    assert texts.read(owns[0], TOPIC)[2] is not None
    together = texts.read_alike(owns, TOPIC)
    assert together is not None
    assert (together.hashes is None) == (sum(map(len, owns)) > MOST_HASHED)
    assert texts.read(b"KEYS\x01" + b"k " * MOST_HASHED, TOPIC)[2] is None


def test_keys_of_a_long_common_text_are_not_hashed_at_once() -> None:
    """They are those of each message."""
    texts = BatchTexts(b"KEYS\x01" + b"k " * (MOST_HASHED // 4))
    for values in ((1, 2), (3, 44)):  # equally long, and not
        owns = [b"UNIQ_KEY\x01%d" % value for value in values]
        texts.read(owns[0], TOPIC)
        together = texts.read_alike(owns, TOPIC)
        assert together is not None
        assert together.hashes is None
