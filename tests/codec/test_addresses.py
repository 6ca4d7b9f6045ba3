"""Addresses as text."""

from __future__ import annotations

import pytest

from rmqcli.codec.ids import join_address, split_address, split_addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:80", ("10.0.0.1", 80)),
        ("[::1]:9876", ("::1", 9876)),
        ("broker-a:65535", ("broker-a", 65535)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
    ],
)
def test_addresses_are_split_and_joined(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address
    assert join_address(*address) == text


@pytest.mark.parametrize(
    "text",
    [
        "host",
        ":1",
        "host:",
        "host:x",
        "host:0",
        "host:65536",
        "host:\u0661",
        "",
        "x:1:2",
        "[x]:1",
        "[::1:1",
        "::1]:1",
        "9" * 5000 + ":1:" + "9" * 5000,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address: host:port is expected"):
        split_address(text)


@pytest.mark.parametrize(("text", "host"), [("names", "names"), ("[::1]", "::1"), ("names:9876", "names")])
def test_a_port_can_have_a_default(text: str, host: str) -> None:
    assert split_address(text, 9876) == (host, 9876)


def test_lists_are_split() -> None:
    assert split_addresses(" a:1 ;b:2,;c:3\n") == ["a:1", "b:2", "c:3"]
    assert split_addresses("") == []
