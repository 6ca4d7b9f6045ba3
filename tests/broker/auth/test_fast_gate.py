"""The gate decides about requests that a layout has read as about those of the general reader, and about what it
permitted before as at first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqcli.broker.auth import control
from rmqcli.broker.auth.control import AccessControl
from rmqcli.broker.auth.files import loaded
from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.errors import Refusal
from rmqcli.broker.handlers import direct_readers
from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.codes import SerializeType
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.offsets import UpdateConsumerOffsetRequestHeader
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection, ReceiveError
from rmqcli.codec.remoting.frame import decode_frame, encode_frame
from tests.broker.auth.support import ACCOUNTS, ORDINARY
from tests.broker.support import long_header, send_header

SESSION: Any = SimpleNamespace(peer=("10.1.1.1", 5), peer_text="10.1.1.1:5", turns=None)
BYTES = b'"{}[],:0129-+aeA_/=\x00\x01\xc3\xff'
GROUP: dict[str, Any] = {"consumer_group": "readers", "topic": "news", "queue_id": 3}
HEADERS = {
    R.SEND_MESSAGE_V2: send_header("letters", {"UNIQ_KEY": "A" * 32}),
    R.SEND_MESSAGE: long_header(send_header("letters", {"UNIQ_KEY": "A" * 32})),
    R.SEND_BATCH_MESSAGE: send_header("letters", {"UNIQ_KEY": "B" * 32}),
    R.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetRequestHeader(**GROUP, commit_offset=171),
    R.PULL_MESSAGE: PullMessageRequestHeader(
        **GROUP,
        queue_offset=171,
        max_msg_nums=32,
        sys_flag=2,
        commit_offset=17,
        suspend_timeout_millis=0,
        subscription="",
    ),
}


def access(accounts: bytes = ACCOUNTS) -> AccessControl:
    files = AccountFiles(Path("plain_acl.yml"), None, None, lambda: 0)  # type: ignore[arg-type]
    control = AccessControl(lambda: 0, files)
    use(control, accounts)
    return control


def use(control: AccessControl, accounts: bytes) -> None:
    assert control.files is not None
    control.files.use(loaded({Path("plain_acl.yml"): accounts}, 0))


def signed(code: int, kind: SerializeType, **changes: str) -> bytes:
    command = RemotingCommand(code, {**to_ext(HEADERS[R(code)]), **changes}, b"body", 7, serialize_type=kind)
    ORDINARY.signer().sign(command)
    return encode_frame(command)


def refusal(control: AccessControl, command: RemotingCommand | None) -> str | None:
    """The remark of a refusal, None for an admission; for bytes that end the connection, too."""
    if command is None:
        return None
    try:
        control.gate(SESSION, command)
    except Refusal as refused:
        return refused.remark
    return None


def read(connection: Connection, data: bytes) -> RemotingCommand | None:
    try:
        (command,) = connection.receive(data)
    except ReceiveError:
        return None
    return command


def variants(data: bytes) -> Iterator[bytes]:
    """The frame with each byte behind the lengths replaced in turn."""
    for position in range(8, len(data)):
        for byte in BYTES:
            yield data[:position] + bytes((byte,)) + data[position + 1 :]


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("code", HEADERS)
def test_every_byte_has_a_part_in_the_decision(code: int, kind: SerializeType) -> None:
    rules, direct = access(), direct_readers(gated=True)
    whole = signed(code, kind)
    slow: RemotingCommand | None = decode_frame(whole[4:])
    assert refusal(rules, slow) is None
    refused = 0
    for changed in variants(whole):
        fast = read(Connection(direct=direct), changed)
        slow = None if fast is None else decode_frame(changed[4:])
        assert refusal(rules, fast) == refusal(rules, slow)
        refused += refusal(rules, fast) is not None
    assert refused > len(whole)


@pytest.mark.parametrize("kind", SerializeType)
def test_what_was_permitted_is_asked_again_under_other_rules(kind: SerializeType) -> None:
    rules = access()
    command = decode_frame(signed(R.SEND_MESSAGE_V2, kind)[4:])
    assert [refusal(rules, command) for _ in range(2)] == [None, None]
    use(rules, ACCOUNTS.replace(b"letters=PUB", b"letters=SUB"))
    assert "topic:letters" in (refusal(rules, command) or "")
    use(rules, ACCOUNTS)
    assert refusal(rules, command) is None


def test_one_account_is_not_permitted_what_another_one_is() -> None:
    both = ACCOUNTS + b"- {accessKey: another, secretKey: secret-of-ordinary, topicPerms: [letters=SUB]}\n"
    rules = access(both)
    assert refusal(rules, decode_frame(signed(R.SEND_MESSAGE_V2, SerializeType.JSON)[4:])) is None
    command = RemotingCommand(R.SEND_MESSAGE_V2, to_ext(HEADERS[R.SEND_MESSAGE_V2]), b"body")
    ORDINARY.signer().sign(command)
    other = RemotingCommand(R.SEND_MESSAGE_V2, to_ext(HEADERS[R.SEND_MESSAGE_V2]), b"body")
    type(ORDINARY)("another", ORDINARY.secret_key).signer().sign(other)
    assert refusal(rules, command) is None
    assert "topic:letters" in (refusal(rules, other) or "")


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_PERMITTED", 8)
    rules = access(ACCOUNTS.replace(b"topicPerms", b"defaultTopicPerm: PUB\n  topicPerms"))
    for n in range(40):
        assert (
            refusal(rules, decode_frame(signed(R.SEND_MESSAGE_V2, SerializeType.JSON, b=f"t{n}")[4:])) is None
        )
        assert len(rules._permitted) <= 8
    kept = set(rules._permitted)
    assert {need.permission for _, _, needs in kept for need in needs} == {Permission.PUB}
    long = "t" * 100_000
    assert refusal(rules, decode_frame(signed(R.SEND_MESSAGE_V2, SerializeType.JSON, b=long)[4:])) is None
    assert rules._permitted == kept
