"""The properties of a batch's messages are read as if each was read alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.errors import IllegalBatch
from broker.store.batch_texts import BatchText, BatchTexts, texts_of
from codec.errors import LocalProtocolError
from codec.hashing import tags_code

COMMON = (b"", b"WAIT\x01true", b"TAGS\x01all\x02", b"UNIQ_KEY\x01whole")
VALUES = st.sampled_from(["0A0B", "0a0D", "A\x01BC", "A\x02BC", "AB\x02\x01", "A BC", "ABé", "", "x"])
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


def outcome(texts: BatchTexts, text: str) -> BatchText | str:
    try:
        return texts.read(text.encode())
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
    alike = texts.read_alike(owns)
    assert alike is None or list(zip(*alike, strict=True)) == [BatchTexts(common).read(own) for own in owns]


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
    together = texts.read_alike(owns)
    alone = [BatchTexts(common).read(own) for own in owns]
    assert together is not None
    assert list(zip(*together, strict=True)) == alone
    broken = owns[-1].replace(b"\x01", b"\x01" + odd.encode(), 1)
    later = texts.read_alike((broken,))
    assert later is None or list(zip(*later, strict=True)) == [BatchTexts(common).read(broken)]


@pytest.mark.parametrize(
    "own", [b"", b"a\x01b\x02a\x01c", b"n", b"a\x01", b"\x02".join([b"n%d\x01v" % n for n in range(17)])]
)
def test_a_text_without_a_shape_is_read_alone(own: bytes) -> None:
    texts = BatchTexts(b"")
    texts.read(own)
    assert texts.read_alike((own, own)) is None


def test_a_text_like_the_one_before_is_read_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = BatchTexts(b"WAIT\x01true")
    texts.read(b"UNIQ_KEY\x010A\x02TAGS\x01t")
    monkeypatch.setattr("broker.store.batch_texts.decode_properties", None)
    stored, code, keys = texts.read(b"UNIQ_KEY\x010B\x02TAGS\x01t")
    assert stored == b"UNIQ_KEY\x010B\x02TAGS\x01t\x02WAIT\x01true"
    assert (code, keys) == (tags_code("t"), ("0B",))
    both = texts.read_alike([b"UNIQ_KEY\x010C\x02TAGS\x01t", b"UNIQ_KEY\x010D\x02TAGS\x01t"])
    assert both is not None
    assert both[2] == [("0C",), ("0D",)]


def test_a_batch_of_different_texts_is_not_learned_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = BatchTexts(b"")
    for number in range(4):
        texts.read(b"UNIQ_KEY\x010A\x02n%d\x01v" % number)
    monkeypatch.setattr(BatchTexts, "_learned", None)
    assert texts.read(b"KEYS\x01k\x02UNIQ_KEY\x01u")[2] == ("u", "k")


def test_a_batch_like_the_one_before_is_read_by_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    common = b"WAIT\x01true"
    for number in range(5):  # misses of a batch do not count for the next
        texts_of(common).read(b"KEYS\x01%d" % number)
    texts_of(common).read(b"UNIQ_KEY\x010A\x02TAGS\x01t")
    monkeypatch.setattr("broker.store.batch_texts.decode_properties", None)
    read = texts_of(common).read_alike([b"UNIQ_KEY\x010B\x02TAGS\x01t"])
    assert read == ([b"UNIQ_KEY\x010B\x02TAGS\x01t\x02WAIT\x01true"], [tags_code("t")], [("0B",)])
