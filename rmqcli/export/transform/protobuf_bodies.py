"""Bodies that are protobuf messages, parsed by Google's library, which bounds nesting (100 levels) and lengths.

Fields that the descriptor does not have are ignored. An empty body is a message with no field set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError

from rmqcli.export.transform.decoder import Undecodable, array_of
from rmqcli.export.transform.protobuf_schema import message_class, typed_message


class ProtobufBodies:
    """The decoder of a message of a descriptor set."""

    def __init__(self, schema: bytes, name: str) -> None:
        self._message: Any = message_class(schema, name)
        found = typed_message(self._message.DESCRIPTOR)
        self.type = found.kind
        self._convert: Any = found.convert

    def parse(self, body: bytes) -> Any:
        message = self._message()
        try:
            message.ParseFromString(body)
        except (ProtobufError, UnicodeDecodeError):
            raise Undecodable("not a message of this type") from None
        if not message.IsInitialized():
            raise Undecodable("a required field is missing")
        return self._convert(message)

    def to_array(self, values: Sequence[Any]) -> Any:
        return array_of(values, self.type)
