"""The entry of the table of operations, which encodes and decodes requests and replies.

Headers are classes of `rmqcli.codec.headers`. Bodies are classes of `rmqcli.codec.bodies` or a `list[…]` of
one (JSON), `PROPERTIES` (lines of text) or `bytes` (message bodies, stored records, or a form that the users
of the operation encode themselves). None means no header or no body; `optional(…)` means that the body may be
missing.

Directions name the ends: C client, A admin tool, B broker, N name server, Ctl controller, FS filter server.
"""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

import msgspec

from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.config import decode_properties_text, encode_properties_text, load_properties_text
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.fastjson_writer import STANDARD, JsonDialect
from rmqcli.codec.headers.base import from_ext, to_ext
from rmqcli.codec.operations.access import Access
from rmqcli.codec.remoting.command import RemotingCommand

if TYPE_CHECKING:
    # Parts that an operation does not name are None; type checkers know defaults of type variables, Python
    # 3.11 does not.
    from typing_extensions import TypeVar

    RequestT = TypeVar("RequestT", default=None)
    ReplyT = TypeVar("ReplyT", default=None)
    RequestBodyT = TypeVar("RequestBodyT", default=None)
    ReplyBodyT = TypeVar("ReplyBodyT", default=None)
    T = TypeVar("T")
else:
    from typing import TypeVar

    RequestT = TypeVar("RequestT")
    ReplyT = TypeVar("ReplyT")
    RequestBodyT = TypeVar("RequestBodyT")
    ReplyBodyT = TypeVar("ReplyBodyT")


PROPERTIES: Final = dict[str, str]
"""A body of `name=value` lines."""

NOT_SET: Final = "not set any response code"
"""The remark that Java leaves in several successful replies."""


class Answer(NamedTuple, Generic[ReplyT, ReplyBodyT]):
    """The header and the body of a reply."""

    header: ReplyT
    body: ReplyBodyT


class Operation(msgspec.Struct, Generic[RequestT, ReplyT, RequestBodyT, ReplyBodyT], frozen=True):
    """A request code with everything that both ends need to know about it.

    `answered` is False for a request without a reply; `remark` is the remark of a successful reply;
    `refused_on_slave` is True if a slave refuses the request; `access` has the checks of access control.
    """

    code: RequestCode
    direction: str = ""
    request: type[RequestT] | None = None
    reply: type[ReplyT] | None = None
    request_body: type[RequestBodyT] | None = None
    reply_body: type[ReplyBodyT] | None = None
    request_dialect: JsonDialect = STANDARD
    reply_dialect: JsonDialect = STANDARD
    answered: bool = True
    remark: str | None = None
    refused_on_slave: bool = False
    access: tuple[Access, ...] = ()

    @property
    def name(self) -> str:
        """The name of the request code."""
        return self.code.name

    @property
    def json_request(self) -> type[Any] | None:
        """The type of the JSON body of a request; None if its body is not a JSON object."""
        form: Any = self.request_body
        if isinstance(form, UnionType):
            form = form.__args__[0]
        return form if isinstance(form, type) and form is not bytes else None

    def encode_request(self, header: RequestT, body: RequestBodyT) -> tuple[dict[str, str] | None, bytes]:
        """Return the ext fields and the body of a request."""
        return _ext(header), _encode(self.request_body, body, self.request_dialect)

    def encode_reply(
        self, header: ReplyT | None, body: ReplyBodyT | None, dialect: JsonDialect | None = None
    ) -> tuple[dict[str, str] | None, bytes]:
        """Return the ext fields and the body of a reply; `dialect` replaces the usual one."""
        return _ext(header), _encode(self.reply_body, body, dialect or self.reply_dialect)

    def decode_header(self, command: RemotingCommand) -> RequestT:
        """Return the header of a request, which the connection may have read already. Raises HeaderError."""
        header: Any = command.header or _read_header(self.request, command)
        return header  # type: ignore[no-any-return]

    def decode_request(self, command: RemotingCommand) -> tuple[RequestT, RequestBodyT]:
        """Return the header and the body of a request. Raises HeaderError or BodyError."""
        if self.request_body == PROPERTIES:
            body: Any = load_properties_text(command.body)
            return self.decode_header(command), body
        return self.decode_header(command), _decode(self.request_body, command.body)

    def decode_reply_header(self, command: RemotingCommand) -> ReplyT:
        """Return the header of a reply. Raises HeaderError."""
        header: Any = _read_header(self.reply, command)
        return header  # type: ignore[no-any-return]

    def decode_reply(self, command: RemotingCommand) -> Answer[ReplyT, ReplyBodyT]:
        """Return the header and the body of a reply. Raises HeaderError or BodyError."""
        return Answer(self.decode_reply_header(command), _decode(self.reply_body, command.body))


AnyOperation = Operation[Any, Any, Any, Any]


def optional(form: type[T]) -> type[T | None]:
    """Return the form of a body that may be missing, and is then None."""
    either: Any = form | None
    return either  # type: ignore[no-any-return]


def _read_header(cls: Any, command: RemotingCommand) -> Any:
    if cls is None:
        return None
    header = command.header
    # The header of a reply was read before the request to which it belongs was known.
    if isinstance(header, cls):
        return header
    return from_ext(cls, command.ext_fields if header is None else to_ext(header))


def _ext(header: Any) -> dict[str, str] | None:
    return None if header is None else to_ext(header)


def _decode(form: Any, data: bytes | memoryview) -> Any:
    if form is None:
        return None
    if isinstance(form, UnionType):
        return _decode(form.__args__[0], data) if data else None
    if form is bytes:
        return data
    return decode_properties_text(data) if form == PROPERTIES else decode_body(form, data)


def _encode(form: Any, body: Any, dialect: JsonDialect) -> bytes:
    if body is None:
        return b""
    if form is bytes:
        written: bytes = body
        return written
    return encode_properties_text(body) if form == PROPERTIES else encode_body(body, dialect=dialect)
