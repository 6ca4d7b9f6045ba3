"""The ext fields of a signature (`rmqcli.codec.remoting.signature`), and headers of frequent requests with these
fields, so that a reader of typed headers loses no field of a signed request.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rmqcli.codec.headers.base import Header
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"

_FIELDS: Final = {"access_key": ACCESS_KEY, "security_token": SECURITY_TOKEN, "signature": SIGNATURE}


def _signed(header: type[Header]) -> type[Header]:
    fields = [(name, str | None, msgspec.field(name=wire, default=None)) for name, wire in _FIELDS.items()]
    struct: Any = msgspec.defstruct(
        f"Signed{header.__name__}", fields, bases=(header,), module=__name__, frozen=True
    )
    return struct  # type: ignore[no-any-return]


SignedSendV2: Final = _signed(SendMessageRequestHeaderV2)
