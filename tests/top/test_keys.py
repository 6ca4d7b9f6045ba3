"""Keys of a terminal."""

from __future__ import annotations

import pytest

from rmqcli.top.terminal import Keys


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        ([b"q"], ["q"]),
        ([b"ab"], ["a", "b"]),
        ([b"\x1b[A\x1bOB\x1b[5~"], ["up", "down", "pageup"]),
        ([b"\x1b"], ["escape"]),
        ([b"\x1b[", b"C"], ["right"]),
        ([b"\x1b[1;5", b"Pq"], ["q"]),
        ([b"\r\x7f\t\x0c\x15"], ["enter", "backspace", "tab", "redraw", "clear"]),
        (["é".encode()[:1], "é".encode()[1:]], ["é"]),
        ([b"\xff\x00\x01q"], ["\ufffd", "q"]),
    ],
)
def test_what_is_read(reads: list[bytes], keys: list[str]) -> None:
    decoder = Keys()
    assert [key for data in reads for key in decoder.feed(data)] == keys
