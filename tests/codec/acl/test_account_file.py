"""Files of accounts: what they mean, what is refused, and how they are rewritten."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.acl.account_file import FileVersion, Permission, parse_file
from rmqcli.codec.acl.account_yaml import Unusual, read_quickly
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.acl.rewriting import file_text, with_account, with_white, without_account
from tests.seeds import times

BOTH = Permission.PUB | Permission.SUB
TEXT = b"""
# by hand
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*
accounts:
- accessKey: RocketMQ
  secretKey: 012345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB= PUB|SUB
  - topicC=sub
  groupPerms:
  - groupA=DENY
  - topicB=SUB|PUB
  - x=SUB
  colour: red
- {accessKey: rocketmq2, secretKey: '12345678', whiteRemoteAddress: 192.168.1.*, admin: true}
"""


def test_what_a_file_means() -> None:
    file = parse_file("f", TEXT, 7)
    assert [rule.text for rule in file.white] == ["10.10.103.*", "192.168.0.*"]
    first, second = file.accounts
    assert (first.access_key, first.secret_key, first.admin) == ("RocketMQ", "012345678", False)
    assert (first.default_topic, first.default_group) == (Permission.DENY, Permission.SUB)
    assert first.permissions == {
        "topicA": Permission.DENY,
        "topicB": BOTH,
        "topicC": Permission.DENY,
        "%RETRY%groupA": Permission.DENY,
        "%RETRY%topicB": BOTH,
        "%RETRY%x": Permission.SUB,
    }
    assert (second.admin, second.white.text, second.default_topic) == (True, "192.168.1.*", Permission.DENY)
    assert file.version == FileVersion(0, 7)
    assert "012345678" not in repr(file) + repr(first)


def test_topics_overwrite_groups_of_the_same_name() -> None:
    text = b"accounts: [{accessKey: key1234, secretKey: secret1, groupPerms: [G=SUB], topicPerms: ['%RETRY%G=DENY']}]"
    assert parse_file("f", text).accounts[0].permissions == {"%RETRY%G": Permission.DENY}


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"accounts:\nother: 1\n"])
def test_files_without_accounts(text: bytes) -> None:
    assert parse_file("f", text).accounts == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"- a", "f: a map with"),
        (b"accounts: x", "f: accounts: a list is expected"),
        (b"accounts: [x]", "f: account 1: a map is expected"),
        (b"accounts: [{accessKey: short1, secretKey: hidden1}]", "account 1: accessKey has fewer than 7"),
        (b"accounts: [{accessKey: longer1, secretKey: hidden}]", "account longer1: secretKey has fewer than 7"),
        (b"accounts: [{accessKey: longer1}]", "account longer1: secretKey"),
        (b"accounts: [{accessKey: [], secretKey: hidden1}]", "account 1: accessKey: a text is expected"),
        (b"accounts: [{accessKey: longer1, secretKey: hidden1, topicPerms: [a]}]", "topicPerms: 'a': NAME=PERM"),
        (b"accounts: [{accessKey: longer1, secretKey: hidden1, groupPerms: [a=b=c]}]", "groupPerms: 'a=b=c'"),
        (b"accounts: [{accessKey: longer1, secretKey: hidden1, topicPerms: [{}]}]", "a list of texts"),
        (b"accounts: [{accessKey: longer1, secretKey: hidden1, admin: maybe}]", "admin: true or false"),
        (b"accounts: [{accessKey: longer1, secretKey: hidden1, whiteRemoteAddress: x}]", "whiteRemoteAddress: 'x' is"),
        (b"globalWhiteRemoteAddresses: [10.0.0.5-3]", "f: '10.0.0.5-3' is not an address"),
        (b"accounts:\n- secretKey: hidden1 [\n  accessKey: 'x", "f: not a YAML file at line"),
        (b"\xff\xfe\xff", "f: not a YAML file"),
        (b"[" * 1200, "f: not a YAML file"),
        (b" " * (4 * 1024 * 1024 + 1), "4194304 is the limit"),
    ],
)  # fmt: skip
def test_files_that_are_refused(text: bytes, reason: str) -> None:
    with pytest.raises(AclError) as caught:
        parse_file("f", text)
    assert reason in str(caught.value)
    assert "hidden" not in str(caught.value)


DOUBLED = b"x0: &x0 {a: 1, b: 2}\n" + b"".join(
    b"x%d: &x%d {<<: [*x%d, *x%d]}\n" % (n, n, n - 1, n - 1) for n in range(1, 40)
)
MERGES = (
    b"".join(
        b"x%d: &x%d {%s}\n" % (n, n, b", ".join(b"k%d: 1" % (600 * n + k) for k in range(600)))
        for n in range(2)
    )
    + b"x: {<<: [*x0, *x1]}\n"
)
ALIASES = b"p: &p [%s]\naccounts:\n" % b", ".join([b"a=SUB"] * 500) + b"".join(
    b"- {accessKey: key%05d, secretKey: hidden1, topicPerms: *p}\n" % n for n in range(401)
)


@pytest.mark.parametrize(
    ("text", "reason"), [(MERGES, "not a YAML file at line"), (ALIASES, "more than 200000")]
)
def test_a_short_file_is_not_made_a_long_one(text: bytes, reason: str) -> None:
    """By merges of maps, or by one list that hundreds of accounts have."""
    with pytest.raises(AclError, match=reason):
        parse_file("f", text)


def test_merges_that_double_with_each_line() -> None:
    """PyYAML 6.0.4 merges each member once, so that nothing doubles; with earlier ones the file is refused."""
    doubles = tuple(map(int, yaml.__version__.split(".")[:3])) < (6, 0, 4)
    refused = pytest.raises(AclError, match="not a YAML file at line")
    with refused if doubles else contextlib.nullcontext():
        assert not parse_file("f", DOUBLED).accounts


def test_merges_that_people_write() -> None:
    text = b"""
    d: &d {secretKey: hidden1, defaultTopicPerm: SUB}
    accounts: [{<<: *d, accessKey: longer1}, {<<: [*d], accessKey: longer2, defaultTopicPerm: PUB}]
    """
    found = [(one.access_key, one.default_topic) for one in parse_file("f", text).accounts]
    assert found == [("longer1", Permission.SUB), ("longer2", Permission.PUB)]


@given(st.binary(max_size=200) | st.text(alphabet="accounts: [{}]\n-'=&*!|>", max_size=200).map(str.encode))
def test_any_bytes_are_a_file_or_an_error_of_ours(content: bytes) -> None:
    with contextlib.suppress(AclError):
        parse_file("f", content)


def rewritten(change: dict[str, Any]) -> tuple[bytes, Any]:
    text = file_text(change, FileVersion(3, 1700000000000))
    return text, yaml.safe_load(text)


def test_an_account_is_merged_and_moves_to_the_end() -> None:
    document = parse_file("f", TEXT).document
    new = {"accessKey": "RocketMQ", "secretKey": "other-secret", "topicPerms": ["z=PUB"], "admin": None}
    text, found = rewritten(with_account(document, new))
    assert [one["accessKey"] for one in found["accounts"]] == ["rocketmq2", "RocketMQ"]
    changed = found["accounts"][1]
    assert (changed["secretKey"], changed["topicPerms"], changed["admin"]) == (
        "other-secret",
        ["z=PUB"],
        False,
    )
    assert (changed["defaultGroupPerm"], changed["colour"]) == ("SUB", "red")
    assert found["accounts"][0]["admin"] is True
    assert found["dataVersion"] == [{"counter": 3, "timestamp": 1700000000000}]
    assert text.startswith(b"globalWhiteRemoteAddresses:\n- 10.10.103.*\n") and b"accounts:\n- " in text
    again = parse_file("f", text)
    assert again.version == FileVersion(3, 1700000000000)
    assert again.accounts[1].permissions["z"] is Permission.PUB


def test_secrets_and_addresses_survive_a_rewrite() -> None:
    document = with_white(parse_file("f", TEXT).document, ["127.0.0.1", "10.*"])
    again = parse_file("f", file_text(document, FileVersion(1, 2)))
    assert [one.secret_key for one in again.accounts] == ["012345678", "12345678"]
    assert [rule.text for rule in again.white] == ["127.0.0.1", "10.*"]
    left = parse_file("f", file_text(without_account(document, "RocketMQ"), FileVersion()))
    assert [one.access_key for one in left.accounts] == ["rocketmq2"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"accessKey": "short", "secretKey": "hidden-long"},
            "The accessKey=short and secretKey=*** cannot be null",
        ),
        ({"accessKey": "long-enough", "secretKey": None}, "cannot be null and length should longer than 6"),
        ({"topicPerms": ["a=XX"]}, "Parse resource permission error for a=XX.\nThe expected permissions are"),
        ({"groupPerms": ["a"]}, "Parse resource permission error for a."),
        ({"defaultTopicPerm": "ALL"}, "Parse resource permission error for ALL."),
        ({"whiteRemoteAddress": "x"}, "'x' is not an address"),
    ],
)
def test_changes_that_are_refused(given: dict[str, Any], reason: str) -> None:
    whole = {"accessKey": "long-enough", "secretKey": "hidden-long", **given}
    with pytest.raises(AclError) as caught:
        with_account({}, whole)
    assert reason in str(caught.value) and "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + TEXT,
        TEXT.decode().encode("utf-16"),
        "# 账号\n".encode("gbk") + TEXT,
        TEXT + "# 账号".encode("gbk"),
        TEXT.replace(b"\n", b"\r\n"),
    ],
    ids=["mark", "UTF-16", "comment", "last comment", "CRLF"],
)
def test_a_file_of_windows_is_read(content: bytes) -> None:
    assert parse_file("f", content, 7).accounts == parse_file("f", TEXT, 7).accounts


def test_an_account_in_another_encoding_is_refused() -> None:
    with pytest.raises(AclError, match=r"^f: not UTF-8, and not only in comments$"):
        parse_file("f", TEXT.replace(b"topicA", b"caf\xe9"))


def slowly(content: bytes) -> Any:
    """The file, or the text of its error, as PyYAML alone reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rmqcli.codec.acl.account_yaml.read_quickly", refusing)
        return quickly(content)


def refusing(_content: object) -> Any:
    raise Unusual


def quickly(content: bytes) -> Any:
    try:
        return parse_file("f", content)
    except AclError as error:
        return str(error)


PIECES = st.sampled_from(
    [
        *(
            "accounts",
            ":",
            ": ",
            "- ",
            "\n",
            "\n  ",
            "\n- ",
            "{",
            "}",
            "[",
            "]",
            ", ",
            ",",
            "a=PUB",
            "'x'",
            '"y"',
            "'",
        ),
        *(
            '"',
            "#",
            " #",
            "|",
            ">",
            "*",
            "&",
            "!",
            "%",
            "@",
            "`",
            "~",
            "null",
            "true",
            "10.0.0.*",
            "2001::1",
            "\t",
        ),
        *(
            " ",
            "?",
            "? ",
            "?a",
            "--- ",
            "---",
            "...",
            "\\",
            "\u00e9",
            "\ufeff",
            "\x85",
            "\u2028",
            "\r",
            "\r\n",
        ),
        *(
            "\x00",
            "=",
            "<<",
            "a:b",
            "'it''s'",
            '"\\x41"',
            "|-\n  z",
            "key: value",
            "- accessKey: a1",
            "0x1F",
            "1_000",
        ),
    ]
)
WHOLE = """accounts:
- accessKey: account1
  secretKey: 'secret1'
  topicPerms: [a=PUB, 'b=SUB']
- {accessKey: account2, secretKey: "secret2", admin: true}
"""


@given(st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=times(38))
def test_libyaml_reads_as_pyyaml_does(text: str) -> None:
    assert quickly(text.encode()) == slowly(text.encode())


@given(st.integers(0, len(WHOLE)), st.lists(PIECES, max_size=3).map("".join), st.integers(0, 3))
@settings(max_examples=times(38))
def test_libyaml_reads_a_changed_file_as_pyyaml_does(place: int, text: str, removed: int) -> None:
    """With the same lines in errors."""
    changed = (WHOLE[:place] + text + WHOLE[place + removed :]).encode()
    assert quickly(changed) == slowly(changed)


@pytest.mark.parametrize(
    "text", ["{k?v: 1}", "[a?, b]", ">#~%", "a:\tb", "[a, \tb]", "a: 1\n--- \nb: 2", "- - - " * 60 + "a", "[" * 60 + "]" * 60]
)  # fmt: skip
def test_where_they_differ_pyyaml_decides(text: str) -> None:
    with pytest.raises(Unusual):
        read_quickly(text)
    assert quickly(text.encode()) == slowly(text.encode())


def test_thousands_of_accounts_are_read_by_libyaml() -> None:
    """10,000 take 0.4 s of CPU, 6.2 s with PyYAML."""
    accounts = "".join(
        f"- accessKey: account{n:05}\n  secretKey: secret{n}\n  topicPerms:\n  - t{n}=PUB|SUB\n"
        for n in range(500)
    )
    text = f"# \u5e10\u6237?\r\naccounts:\n{accounts}"
    assert len(read_quickly(text)["accounts"]) == 500
    assert quickly(text.encode()) == slowly(text.encode())
