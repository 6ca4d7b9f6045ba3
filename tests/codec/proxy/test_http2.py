"""Frames and header blocks of HTTP/2, without I/O: hpack is the oracle of the blocks."""

from __future__ import annotations

from random import Random

import hpack
import pytest

from rmqcli.codec.core.header_blocks import Field, plain_fields
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.proxy.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PREFACE,
    SETTINGS,
    frame,
    literal,
)
from rmqcli.codec.proxy.http2 import (
    LONGEST_HEADERS,
    WINDOW,
    HeaderReader,
    ServerConnection,
    Stream,
)
from tests.seeds import seeds

NAMES = [":path", ":method", "te", "grpc-timeout", "x-mq-client-id", "x" * 200]
VALUES = ["", "/a.b/C", "POST", "trailers", "20S", "é", "v" * 126, "v" * 127, "v" * 2500]


def outcome(read: object, block: bytes) -> object:
    try:
        return read(block)  # type: ignore[operator]
    except hpack.HPACKError as error:
        return type(error)


@pytest.mark.parametrize("seed", seeds(6))
def test_header_blocks_are_read_as_hpack_reads_them(seed: int) -> None:
    rng = Random(seed)
    reader, oracle, encoder = HeaderReader(), hpack.Decoder(LONGEST_HEADERS), hpack.Encoder()

    def read(block: bytes) -> dict[str, str]:
        fields = oracle.decode(block, raw=True)
        return {str(name, "utf-8", "replace"): str(value, "utf-8", "replace") for name, value in fields}

    for _ in range(300):
        fields = [(rng.choice(NAMES), rng.choice(VALUES)) for _ in range(rng.randrange(8))]
        if rng.random() < 0.5:
            private = [(name, value, rng.random() < 0.5) for name, value in fields]
            block = encoder.encode(private, huffman=rng.random() < 0.5)
        else:
            count = rng.randrange(3)
            block = encoder.encode(fields[:count], huffman=False)
            block += b"".join(literal(name.encode(), value.encode()) for name, value in fields[count:])
        if rng.random() < 0.01:
            damaged = bytearray(block or b"\0")
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            block = bytes(damaged)
        found, wanted = outcome(reader.read, block), outcome(read, block)
        assert found == wanted
        if isinstance(wanted, type):
            break


def plain(block: bytes) -> dict[str, str] | None:
    return plain_fields(block, {}, LONGEST_HEADERS, HeaderReader()._find)


@pytest.mark.parametrize(
    "block",
    [
        b"\0\x01a\x7f\0" + b"v" * 126 + b"\x83",  # a length of two bytes
        b"\0\x7f\x03" + b"n" * 130 + b"\x01v",
        b"\0\x01a\x81\x1f" + b"\x83" * 128,  # Huffman's code
        b"\0\x81\x1f" + b"\x01" * 128 + b"\x83" * 4,
    ],
)
def test_lengths_that_are_no_single_byte_are_left_to_hpack(block: bytes) -> None:
    assert plain(block) is None


def test_the_header_blocks_of_clients_take_the_short_way() -> None:
    block = b"\x83" + literal(b"x-mq-client-id", b"c") + b"\x10" + literal(b"te", b"trailers")[1:]
    assert plain(block) == {":method": "POST", "x-mq-client-id": "c", "te": "trailers"}


def test_what_is_known_is_bounded() -> None:
    known: dict[bytes, Field] = {}
    for number in range(1_000):
        block = literal(b"x-mq-request-id", b"%d" % number)
        assert plain_fields(block, known, LONGEST_HEADERS, HeaderReader()._find) is not None
        assert len(known) <= 64


@pytest.mark.parametrize(
    "block", [b"\x82" * (LONGEST_HEADERS // 40), b"\x00\x7f\x01", b"\x00\x05ab", b"\xfe"]
)
def test_header_blocks_that_are_too_much_are_refused(block: bytes) -> None:
    with pytest.raises(hpack.HPACKError):
        HeaderReader().read(block)


class Told(Stream):
    """A stream that notes what it is told."""

    def __init__(self, number: int, send_window: int, headers: dict[str, str], told: list[object]) -> None:
        super().__init__(number, send_window)
        self.told = told
        told.append((number, headers))

    def note_data(self, data: bytes) -> None:
        self.told.append(data)

    def note_end(self) -> None:
        self.told.append("end")


def talk(*chunks: bytes) -> tuple[list[object], list[bytes]]:
    """What the streams of a connection are told, and what it sends."""
    told: list[object] = []
    sent: list[bytes] = []
    connection = ServerConnection(
        lambda number, window, headers: Told(number, window, headers, told), sent.append
    )
    for chunk in chunks:
        for _ in connection.receive(chunk):
            pass
    return told, sent


CALL = (
    PREFACE
    + frame(SETTINGS, 0, 0)
    + frame(HEADERS, 0, 1, b"\x83")
    + frame(9, END_HEADERS, 1, literal(b"a", b"b"))
    + frame(DATA, PADDED, 1, b"\3hello\0\0\0")
    + frame(77, 0, 0, b"unknown")
    + frame(DATA, END_STREAM, 1, b"!")
)


@pytest.mark.parametrize("size", [1, 2, 9, 10, 1000])
def test_frames_arrive_in_any_pieces(size: int) -> None:
    told, sent = talk(*(CALL[at : at + size] for at in range(0, len(CALL), size)))
    assert told == [(1, {":method": "POST", "a": "b"}), b"hello", b"!", "end"]
    assert sent == [frame(SETTINGS, 1, 0)]


def test_a_client_that_ignores_the_window_of_a_stream_is_refused() -> None:
    begin = PREFACE + frame(HEADERS, END_HEADERS, 1, b"\x83")
    full = [frame(DATA, 0, 1, bytes(WINDOW // 4))] * 4
    talk(begin, *full)
    with pytest.raises(RemoteProtocolError, match="no room"):
        talk(begin, *full, frame(DATA, 0, 1, b"x"))
    with pytest.raises(RemoteProtocolError, match="no room"):
        talk(begin, frame(DATA, END_STREAM, 1, b"x"), frame(DATA, 0, 1, b"x"))


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 254, 255, 382, 383, 20_000])
def test_a_literal_of_any_length_is_read(size: int) -> None:
    block = literal(b"n" * (size or 1), b"v" * size)
    decoder = hpack.Decoder(100_000)
    assert decoder.decode(block, raw=True) == [(b"n" * (size or 1), b"v" * size)]
    assert not decoder.header_table.dynamic_entries
