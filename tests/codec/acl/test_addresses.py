"""Expressions for addresses, as 4.9.8 reads them."""

from __future__ import annotations

import pytest

from rmqcli.codec.acl.addresses import parse_rule, read_address
from rmqcli.codec.acl.errors import AclError


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", "", "127.0.0.1 ::1"),
        ("  ", "", "127.0.0.1"),
        ("*", "127.0.0.1 ::1", ""),
        ("*.*.*.*", "10.1.2.3 ::1", ""),
        ("*:*:*:*:*:*:*:*", "10.1.2.3 ::1", ""),
        ("10.0.0.1", "10.0.0.1 ::ffff:10.0.0.1", "10.0.0.2 ::1"),
        ("::1", "::1 0:0:0:0:0:0:0:1", "::2 127.0.0.1"),
        ("2001:DB8::A", "2001:db8::a", "2001:db8::b"),
        ("127.0.0.{1,2}", "127.0.0.1 127.0.0.2", "127.0.0.3 127.0.1.1"),
        ("2001::{1,2}", "2001::1 2001:0:0:0:0:0:0:2", "2001::3"),
        ("127.0.0.2,127.0.0.1", "127.0.0.1 127.0.0.2", "127.0.0.3"),
        ("127.0.0.2,::1", "::1 127.0.0.2", "::2"),
        ("127.*.*.*", "127.0.0.1 127.9.9.9", "128.0.0.1 ::1"),
        ("127.0-1.*.*", "127.0.0.1 127.1.0.0", "127.2.0.0"),
        ("127.0.0.0-5", "127.0.0.0 127.0.0.5", "127.0.0.6"),
        ("127.0.0.1-1", "127.0.0.1", "127.0.0.2"),
        ("10.0.0.0-0", "10.0.0.0", "10.0.0.1"),
        ("192.168.1-5.7", "192.168.1.9 192.168.5.7", "192.168.6.7"),
        ("2001:db8:*", "2001:db8:1::1 2001:db8:ffff::", "2001:db9::1 10.0.0.1"),
        ("fe80::*", "fe80::7 fe80:0:0:0:0:0:0:ffff", "fe80::1:7"),
        ("1:2:3:4:5:6:7:1-a", "1:2:3:4:5:6:7:1 1:2:3:4:5:6:7:a", "1:2:3:4:5:6:7:b"),
        ("fe80::1-5", "fe80::1 fe80::5", "fe80::6"),
        ("1:2:3-5:*", "1:2:3:: 1:2:5:9:9:9:9:9", "1:2:6::"),
    ],
)
def test_what_matches(text: str, inside: str, outside: str) -> None:
    rule = parse_rule(text)
    for host in inside.split():
        address = read_address(host)
        assert address is not None and rule.matches(address), host
    for host in outside.split():
        address = read_address(host)
        assert address is not None and not rule.matches(address), host


@pytest.mark.parametrize(
    "text",
    [
        "here", "10.0.0", "10.0.0.256", "10.0.0.1, 10.0.0.2", "10.0.0.1,x", "10.0.{1,2}.3", "10.0.{1,2}", "{1,2}",
        "10.0.0.{1,256}", "10.0.0.{}", "10.0.0.1}", "*.0.0.1", "1-2.0.0.1", "10.0.0.5-3", "10.0.0.1-256", "10.0.0.1-",
        "10.x.*.*", "10.0.0.0.*", "10.0.0.-1", "1:2:*:4", "1:2:9-3", "1:2:1-10000", "x::*", "1:2:3:4:5:6:7:8:*",
        "1::2::*", "-", "1-2:*:*", "10.²-3.0.0",
    ],
)  # fmt: skip
def test_what_is_malformed(text: str) -> None:
    with pytest.raises(AclError, match="is not an address"):
        parse_rule(text)


def test_a_peer_that_is_a_name() -> None:
    assert read_address("localhost") is None
    assert str(read_address("fe80::1%eth0")) == "fe80::1"
