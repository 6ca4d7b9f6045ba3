"""Heads of replies and requests that differ in a few values only: what they have in common is written once, by
the general writers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codec.codes import RPC_RESPONSE
from codec.core.replies import ReplyHead
from codec.remoting.binary_header import pieces_between
from codec.remoting.command import RemotingCommand
from codec.remoting.frame import MAX_FRAME
from codec.remoting.json_header import encode_json_header

_SAMPLE: Final = 1_234_567_800
"""The opaque number of what the general writers write."""


def reply_head(
    code: int, ext_fields: Mapping[str, str], names: Sequence[str], remark: str | None = None
) -> ReplyHead:
    """Return the heads of replies with the same code, remark and first ext fields, for the values of those
    with these names.
    """
    return common_head(code, ext_fields, names, RPC_RESPONSE, remark)


def common_head(
    code: int, ext_fields: Mapping[str, str], names: Sequence[str], flag: int = 0, remark: str | None = None
) -> ReplyHead:
    """Return the heads of commands with the same code, flag, remark and ext fields, for the values of those
    with these names, which are in the order of `ext_fields` or new. Raises UnicodeEncodeError.
    """
    command = RemotingCommand(code, {**ext_fields, **dict.fromkeys(names, "")}, b"", _SAMPLE, flag, remark)
    rest, json = encode_json_header(command), []
    # No text has these bytes: its quotes are escaped.
    for before in (*(f'"{name}":"' for name in names), '"opaque":'):
        piece, found, rest = rest.partition(before.encode())
        json.append(piece + found)
    return ReplyHead((*json, rest.removeprefix(b"%d" % _SAMPLE)), pieces_between(command, names), MAX_FRAME)
