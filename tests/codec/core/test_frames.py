"""A stream is taken apart as its layout says, whatever its lengths claim, and wherever it is cut."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rmqcli.codec.core.frames import Parts, split_frames
from rmqcli.codec.remoting.frame import FRAME_HEAD

USUAL_HEADER = 512
NUMBERS = st.sampled_from([-(2**31), -1, 0, 3, 4, 5, 8, 11, 12, 2**24 - 1, 2**24, 2**31 - 1]) | st.integers(
    -(2**31), 2**31 - 1
)
MARKS = st.sampled_from([0, 1, 2, 5, 8, 2**24 - 1, 2**24, 2**24 + 3, 2**31, 2**32 - 1]) | st.integers(
    0, 2**32 - 1
)
FRAMES = st.builds(
    lambda kind, header, body: (
        FRAME_HEAD.pack(4 + len(header) + len(body), kind << 24 | len(header)) + header + body
    ),
    st.sampled_from([0, 1, 2, 127, 128, 255]),
    st.binary(max_size=9) | st.sampled_from([b"h" * 511, b"h" * 512, b"h" * 1100]),
    st.binary(max_size=9),
)
HOSTILE = st.builds(
    lambda length, mark, rest: FRAME_HEAD.pack(length, mark) + rest,
    NUMBERS,
    MARKS,
    st.binary(max_size=12),
)
STREAMS = st.tuples(
    st.lists(FRAMES, max_size=6), st.none() | HOSTILE | st.binary(max_size=9), st.lists(FRAMES, max_size=1)
).map(lambda parts: b"".join((*parts[0], parts[1] or b"", *parts[2])))
NO_LIMITS = 1 << 24, 1 << 24
LIMITS = st.sampled_from([NO_LIMITS, NO_LIMITS, NO_LIMITS, (2000, 600), (30, 9), (12, 4), (4, 0)])
"""Bytes of the longest frame, without its length, and of the longest header."""


def next_frame(data: bytes, longest: int, longest_header: int) -> tuple[Parts, bytes] | None:
    """The parts of the frame at the beginning, and the bytes after it; None where no frame is whole and lawful."""
    if len(data) < FRAME_HEAD.size:
        return None
    length, mark = FRAME_HEAD.unpack_from(data)
    counted, rest = data[4 : max(4 + length, 4)], data[max(4 + length, 4) :]
    size = mark % (1 << 24)
    if len(counted) != length or not 4 + size <= length <= longest or size > longest_header:
        return None
    return (mark, counted[4 : 4 + size], counted[4 + size :]), rest


def frames_of(data: bytes, longest: int, longest_header: int) -> tuple[list[Parts], bytes]:
    """All frames, and the bytes after them."""
    found = []
    while (one := next_frame(data, longest, longest_header)) is not None:
        parts, data = one
        found.append(parts)
    return found, data


@given(STREAMS, st.binary(max_size=9), LIMITS)
@example(FRAME_HEAD.pack(2**31 - 1, 0), b"", NO_LIMITS)
@example(FRAME_HEAD.pack(2**31 - 1, 0), b"", (2**31 - 1, 1 << 24))
@example(FRAME_HEAD.pack(-(2**31), 0), b"", NO_LIMITS)
@example(FRAME_HEAD.pack(4, 1), b"", NO_LIMITS)
@example(FRAME_HEAD.pack(4, 2**32 - 1), b"", NO_LIMITS)
def test_any_stream(data: bytes, before: bytes, limits: tuple[int, int]) -> None:
    frames, rest = frames_of(data, *limits)
    found, end, is_more = split_frames(before + data, len(before), *limits, 1 << 40)
    assert (found, (before + data)[end:], is_more) == (frames, rest, False)


@given(STREAMS, st.lists(st.integers(1, 40), max_size=60), LIMITS)
def test_any_chunks(data: bytes, sizes: list[int], limits: tuple[int, int]) -> None:
    """What is left of a chunk, before the next one, is all that a reader has to keep."""
    found, kept, at = list[Parts](), b"", 0
    for size in (*sizes, len(data)):
        kept, at = kept + data[at : at + size], at + size
        frames, end, _ = split_frames(kept, 0, *limits, 1 << 40)
        found += frames
        kept = kept[end:]
    assert (found, kept + data[at:]) == frames_of(data, *limits)


@given(STREAMS, st.integers(1, 5), LIMITS)
def test_so_many_at_a_time(data: bytes, most: int, limits: tuple[int, int]) -> None:
    """A long header counts as several frames; at least one frame is read, and more only if there is one."""
    found, at, is_more = list[Parts](), 0, True
    while is_more:
        frames, at, is_more = split_frames(data, at, *limits, most)
        weights = [1 + len(header) // USUAL_HEADER for _, header, _ in frames]
        assert sum(weights[:-1]) < most
        if is_more:
            assert sum(weights) >= most
            assert next_frame(data[at:], *limits) is not None
        found += frames
    assert (found, data[at:]) == frames_of(data, *limits)
