"""Signatures: the reference vector, what they cover, and the traps of binary headers and queries."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqcli.codec.codes import RequestCode, SerializeType
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.headers.signed import SIGNATURE
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame, encode_frame
from rmqcli.codec.remoting.reply_head import SendRequest, SendTemplate
from rmqcli.codec.remoting.signature import UNIQUE_KEY_QUERY, Mac, Signer, is_signed
from tests.codec.samples import INT32, INT64
from tests.codec.values import TEXT, structs

SECRET = "12345678"
SIGNER = Signer("RocketMQ", SECRET)
KINDS = pytest.mark.parametrize("kind", SerializeType)


def received(command: RemotingCommand) -> RemotingCommand:
    return decode_frame(encode_frame(command)[4:])


def test_the_reference_vector() -> None:
    command = RemotingCommand(10, {"queueId": "0", "topic": "TopicTest"}, b"abc")
    SIGNER.sign(command)
    assert (command.ext_fields or {})[SIGNATURE] == "FWnPeDJDFXdJqcjkNVGcYCbcW7M="


@given(st.text(min_size=1, max_size=100, alphabet=st.characters(codec="utf-8")), st.binary(), st.binary())
def test_the_algorithm_is_hmac_sha1(secret: str, content: bytes, body: bytes) -> None:
    expected = base64.b64encode(hmac.digest(secret.encode(), b"x" + content + body, "sha1"))
    assert Mac(secret, b"x").base64(content, body) == expected


@KINDS
@given(ext=st.dictionaries(TEXT.filter(bool), TEXT), body=st.binary(max_size=20))
def test_a_signed_request_is_accepted(kind: SerializeType, ext: dict[str, str], body: bytes) -> None:
    command = RemotingCommand(10, ext, body, serialize_type=kind)
    SIGNER.sign(command)
    assert is_signed(Mac(SECRET), received(command))
    assert not is_signed(Mac(SECRET + "9"), received(command))
    assert not is_signed(Mac(SECRET), received(replace(command, body=body + b"x")))


def test_a_request_that_is_sent_again_is_signed_again() -> None:
    command = RemotingCommand(10, {"topic": "T"})
    SIGNER.sign(command)
    first = dict(command.ext_fields or {})
    Signer("other-key", "another-secret").sign(command)
    assert is_signed(Mac("another-secret"), command)
    SIGNER.sign(command)
    assert command.ext_fields == first


def test_a_request_without_header_has_key_and_signature() -> None:
    command = RemotingCommand(RequestCode.HEART_BEAT, None, b"{}")
    Signer("RocketMQ", SECRET, "token").sign(command)
    assert list(command.ext_fields or {}) == ["AccessKey", "SecurityToken", SIGNATURE]
    assert is_signed(Mac(SECRET), received(command))


def test_an_empty_value_is_left_out_of_a_binary_header() -> None:
    ext = {"a": "G", "i": ""}
    binary = RemotingCommand(310, ext, serialize_type=SerializeType.ROCKETMQ)
    SIGNER.sign(binary)
    assert "i" not in (binary.ext_fields or {})
    plain = RemotingCommand(310, ext)
    SIGNER.sign(plain)
    assert (plain.ext_fields or {})["i"] == ""
    # Java reads the empty value of a foreign client as null, and checks the text of that
    foreign = RemotingCommand(310, {**ext, "AccessKey": "k"}, serialize_type=SerializeType.ROCKETMQ)
    signature = base64.b64encode(hmac.digest(SECRET.encode(), b"kGnull", "sha1")).decode()
    foreign.ext_fields = {**(foreign.ext_fields or {}), SIGNATURE: signature}
    assert is_signed(Mac(SECRET), received(foreign))


def test_the_kind_of_a_query_is_not_sent_and_not_checked() -> None:
    command = RemotingCommand(RequestCode.QUERY_MESSAGE, {"topic": "T", UNIQUE_KEY_QUERY: "true"})
    SIGNER.sign(command)
    assert UNIQUE_KEY_QUERY not in (command.ext_fields or {})
    command.ext_fields = {**(command.ext_fields or {}), UNIQUE_KEY_QUERY: "false"}
    assert is_signed(Mac(SECRET), command)


def test_names_are_in_the_order_of_java() -> None:
    """The first name is above the second one by code points, and below it by UTF-16 units."""
    command = RemotingCommand(1, {"\uff5e": "2", "\U0001f600": "1", "b": "0"})
    Signer("k", SECRET).sign(command)
    expected = base64.b64encode(hmac.digest(SECRET.encode(), b"k012", "sha1")).decode()
    assert (command.ext_fields or {})[SIGNATURE] == expected


@given(
    structs(SendMessageRequestHeaderV2),
    INT64,
    TEXT | st.just("TAGS\x01a\x02KEYS\x01%d"),
    st.binary(max_size=20),
    INT32,
    st.none() | TEXT,
)
def test_a_compiled_send_has_the_bytes_of_the_general_encoder(
    header: SendMessageRequestHeaderV2,
    born: int,
    properties: str,
    body: bytes,
    opaque: int,
    token: str | None,
) -> None:
    signer = Signer("100%key", "secret%d", token)
    ext = to_ext(replace(header, born_timestamp=born, properties=properties))
    general = RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext, body, opaque)
    signer.sign(general)
    template = SendTemplate(header, signer)
    assert SendRequest(template, born, properties, body, opaque).frame() == encode_frame(general)
