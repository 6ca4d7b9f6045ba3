"""The command in a frame (`RemotingCommand`), independent of the encoding of its header."""

from __future__ import annotations

from typing import Final

import msgspec

from rmqcli.codec.codes import RPC_ONEWAY, RPC_RESPONSE, LanguageCode, SerializeType
from rmqcli.codec.headers.base import Header
from rmqcli.codec.versions import CURRENT_VERSION

UNKNOWN_LANGUAGE: Final = -1
"""`language` of a peer that sent none or an unknown one; Java reads null."""

UNKNOWN_OPAQUE: Final = -1
"""`opaque` of a frame without one; no request of ours has this number."""


class RemotingCommand(msgspec.Struct, gc=False):
    """A request or a response.

    `language` is a `LanguageCode`, or any other number from a binary header. `body` may be a memory view in a
    command to be sent; `decode_frame` returns a copied body. `header` replaces `ext_fields` in a request that
    a reader of DirectReaders read.
    """

    code: int
    ext_fields: dict[str, str] | None = None
    body: bytes | memoryview = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: int = LanguageCode.PYTHON
    version: int = CURRENT_VERSION
    serialize_type: SerializeType = SerializeType.JSON
    header: Header | None = None

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RPC_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & RPC_ONEWAY)

    def reply(
        self,
        code: int,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes | memoryview = b"",
    ) -> RemotingCommand:
        """Return the response to this request, with its opaque number and kind of header."""
        return RemotingCommand(
            code,
            ext_fields,
            body,
            self.opaque,
            RPC_RESPONSE,
            remark,
            LanguageCode.PYTHON,
            CURRENT_VERSION,
            self.serialize_type,
        )
