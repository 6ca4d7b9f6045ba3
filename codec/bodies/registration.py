"""The body of REGISTER_BROKER (103), as JSON and in its compressed form.

The compressed form is one zlib stream of `int32 length + DataVersion JSON`, `int32 count`, count × `int32
length + topic text`, `int32 length + filter server JSON`; 5.x adds `int32 count`, count × `int32 length +
TopicQueueMappingInfo JSON`. A topic text consists of name, read queues, write queues, perm and filter type,
separated by single blanks; 5.x adds a blank and the attributes as JSON. `order` and `topicSysFlag` are lost.
Integers are big-endian. At most 64 MiB are inflated.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from rmqcli.codec.bodies.base import Body, decode_body, encode_body
from rmqcli.codec.bodies.config import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.route import TopicQueueMappingInfo
from rmqcli.codec.compression import COMPRESSED, decompress
from rmqcli.codec.errors import BodyError, CorruptionError

FULL_BODY_VERSION: Final = 37
"""V3_0_11; older brokers send a bare TopicConfigSerializeWrapper."""

_INT32: Final = struct.Struct(">i")
_BEST_COMPRESSION: Final = 9


class RegisterBrokerBody(Body, frozen=True):
    """The topics of a broker. From a 4.x broker, the 5.x tables of the wrapper are empty."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = TopicConfigSerializeWrapper()
    filter_server_list: list[str] = []

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, *, compressed: bool = False) -> RegisterBrokerBody:
        """Decode a body of either form. Raises BodyError."""
        return _from_sections(_Sections(_inflate(data))) if compressed else decode_body(cls, data)

    @classmethod
    def of_request(cls, data: bytes | memoryview, *, compressed: bool, version: int) -> RegisterBrokerBody:
        """Decode the body of a request of any version, which may be empty. Raises BodyError."""
        if not data:
            return cls()
        if version < FULL_BODY_VERSION:
            return cls(decode_body(TopicConfigSerializeWrapper, data))
        return cls.decode(data, compressed=compressed)

    def encode(self, *, compressed: bool = False) -> bytes:
        """Encode a body; the compressed form omits the section of 5.x if it is empty."""
        return zlib.compress(_to_sections(self), _BEST_COMPRESSION) if compressed else encode_body(self)


def _inflate(data: bytes | bytearray | memoryview) -> bytes:
    try:
        return decompress(data, COMPRESSED)
    except CorruptionError as error:
        raise BodyError(f"compressed registration: {error}") from None


class _Sections:
    """A reader of length-prefixed parts, from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def integer(self) -> int:
        if len(self.data) - self.position < _INT32.size:
            raise BodyError(f"registration ends at byte {self.position}, where a number should be")
        value: int = _INT32.unpack_from(self.data, self.position)[0]
        self.position += _INT32.size
        if not 0 <= value <= len(self.data) - self.position:
            raise BodyError(
                f"registration names {value} bytes or items at byte {self.position}, which it does not hold"
            )
        return value

    def part(self) -> bytes:
        end = self.integer() + self.position
        part, self.position = self.data[self.position : end], end
        return part

    def parts(self) -> Iterator[bytes]:
        # Parts are read one at a time: a damaged one ends the reading before millions are cut out.
        return (self.part() for _ in range(self.integer()))

    @property
    def at_end(self) -> bool:
        return self.position == len(self.data)


def _topic_text(config: TopicConfig) -> bytes:
    numbers = f"{config.read_queue_nums} {config.write_queue_nums} {config.perm}"
    text = f"{config.topic_name} {numbers} {config.topic_filter_type}".encode()
    return text if config.attributes is None else text + b" " + encode_body(config.attributes)


def _topic_of(text: bytes) -> TopicConfig:
    words = text.split(b" ", 5)
    if len(words) < 5:
        raise BodyError(f"topic text {text[:64]!r} has {len(words)} words of 5")
    try:
        name, kind = words[0].decode(), words[4].decode()
        reads, writes, perm = (int(word) for word in words[1:4])
    except ValueError:
        raise BodyError(f"topic text {text[:64]!r} cannot be read") from None
    if not all(-(1 << 31) <= number < 1 << 31 for number in (reads, writes, perm)):
        raise BodyError(f"topic text {text[:64]!r} holds more than an int32")
    attributes = decode_body(dict[str, str], words[5]) if len(words) > 5 and words[5].strip() else None
    return TopicConfig(name, reads, writes, perm, kind, attributes=attributes)


def _from_sections(sections: _Sections) -> RegisterBrokerBody:
    version = decode_body(DataVersion, sections.part())
    topics = {config.topic_name: config for config in map(_topic_of, sections.parts())}
    filters = decode_body(list[str], sections.part())
    texts = () if sections.at_end else sections.parts()
    mappings = {info.topic: info for info in (decode_body(TopicQueueMappingInfo, text) for text in texts)}
    return RegisterBrokerBody(TopicConfigSerializeWrapper(topics, version, mappings or None), filters)


def _sized(part: bytes) -> bytes:
    return _INT32.pack(len(part)) + part


def _many(parts: list[bytes]) -> bytes:
    return _INT32.pack(len(parts)) + b"".join(map(_sized, parts))


def _to_sections(body: RegisterBrokerBody) -> bytes:
    wrapper = body.topic_config_serialize_wrapper
    mappings = [encode_body(info) for info in (wrapper.topic_queue_mapping_info_map or {}).values()]
    return b"".join(
        (
            _sized(encode_body(wrapper.data_version)),
            _many([_topic_text(config) for config in wrapper.topic_config_table.values()]),
            _sized(msgspec.json.encode(body.filter_server_list)),
            _many(mappings) if mappings else b"",
        )
    )
