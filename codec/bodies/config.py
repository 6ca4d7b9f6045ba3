"""Topic and group configurations with their versions (Java `TopicConfig`, `SubscriptionGroupConfig`,
`DataVersion`).

The wrappers are also the files topics.json and subscriptionGroup.json of a store's `config` folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from rmqcli.codec.bodies.base import Body, Int32, Int64
from rmqcli.codec.bodies.route import TopicQueueMappingDetail, TopicQueueMappingInfo
from rmqcli.codec.edited import unmarked
from rmqcli.codec.errors import BodyError


class DataVersion(Body, frozen=True):
    """The version of a table; `timestamp` is epoch ms. Two versions are equal if all members are."""

    timestamp: Int64 = 0
    counter: Int64 = 0
    state_version: Int64 | None = None


class TopicConfig(Body, frozen=True):
    """One topic of a broker. `topic_sys_flag` has the bits 1 UNIT and 2 UNIT_SUB."""

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] | None = None


class TopicConfigSerializeWrapper(Body, frozen=True):
    """The topics of a broker, also the file topics.json. Only 5.x has the last three members."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] | None = None
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] | None = None
    mapping_data_version: DataVersion | None = None


class DeletedTopics(Body, frozen=True):
    """The file deletedTopics.json, which only rmq has: the commit-log offset before which a topic has no
    records.
    """

    deleted_topics: dict[str, Int64] = {}


class TopicConfigAndQueueMapping(TopicConfig, frozen=True):
    mapping_detail: TopicQueueMappingDetail | None = None


class CreateTopicListRequestBody(Body, frozen=True):
    topic_config_list: list[TopicConfig] = []


class ExponentialRetryPolicy(Body, frozen=True):
    """Retry delays that grow (5.x): `initial` × `multiplier` to the power of the attempt, up to `max` ms."""

    initial: Int64 = 5_000
    max: Int64 = 7_200_000
    multiplier: Int64 = 2


class CustomizedRetryPolicy(Body, frozen=True):
    """The retry delay of each attempt in ms (5.x); a Java array."""

    next: tuple[Int64, ...] = ()


class GroupRetryPolicy(Body, frozen=True):
    """The retry policy of a group (5.x); `type` is CUSTOMIZED or EXPONENTIAL."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


class SimpleSubscriptionData(Body, frozen=True):
    """A subscription that a group is expected to have (5.x)."""

    topic: str
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(Body, frozen=True):
    """One consumer group of a broker. Its members read from `broker_id`, or from
    `which_broker_when_consume_slowly` while they are slow."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    consume_message_orderly: bool | None = None
    group_retry_policy: GroupRetryPolicy | None = None
    group_sys_flag: Int32 | None = None
    consume_timeout_minute: Int32 | None = None
    # A Java set.
    subscription_data_set: tuple[SimpleSubscriptionData, ...] | None = None
    attributes: dict[str, str] | None = None


class SubscriptionGroupWrapper(Body, frozen=True):
    """The groups of a broker, also the file subscriptionGroup.json. `forbidden_table` (5.x) maps group →
    topic → bits."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, Int32]] | None = None


class SubscriptionGroupList(Body, frozen=True):
    group_config_list: list[SubscriptionGroupConfig] = []


class GroupForbidden(Body, frozen=True):
    topic: str | None = None
    group: str | None = None
    readable: bool | None = None


# Java properties text: `name=value` lines in UTF-8, as in configuration files and the bodies of codes 25,
# 26, 318 and 319.
#
# `java.util.Properties.load` reads `#` and `!` comments, `=`, `:` or blanks between name and value, lines
# continued with a backslash, and backslash escapes. RocketMQ's `MixAll.properties2String` escapes nothing,
# so its text is read without undoing escapes. The last entry of a name counts.

# Patterns as texts, which re compiles when one is first used: most commands use none of them.
_LINE_END: Final = r"\r\n|\r|\n"
_BLANKS: Final = " \t\f"
_ENTRY: Final = r"(?s)((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)"
_RAW_ENTRY: Final = r"([^=:\s]+)[ \t\f]*[=:]?[ \t\f]*(.*)"
_ESCAPE: Final = r"(?s)\\(u[0-9a-fA-F]{4}|.)"
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTERS: Final = {character: letter for letter, character in _CONTROLS.items()}
_IN_NAME: Final = r"[\\\s=:]|^[#!]"
_IN_VALUE: Final = r"[\\\r\n]|^[ \t\f]"
_NOT_UTF8: Final = "[\udc80-\udcff]"
"""Bytes that are not UTF-8, as `surrogateescape` decodes them."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a text, as `Properties.load` reads them."""
    matches = (re.fullmatch(_ENTRY, line) for line in _logical_lines(text) if line)
    return {_unescape(match[1]): _unescape(match[2]) for match in matches if match}


def format_properties(entries: Mapping[str, str]) -> str:
    """Return one line for each entry, as `MixAll.properties2String` writes it; nothing is escaped or
    checked.
    """
    return "".join(f"{name}={value}\n" for name, value in entries.items())


def store_properties(entries: Mapping[str, str]) -> str:
    """Return the text of a file from which `parse_properties` reads exactly these entries, whatever they
    contain.
    """
    return "".join(
        f"{re.sub(_IN_NAME, _escape, name)}={re.sub(_IN_VALUE, _escape, value)}\n"
        for name, value in entries.items()
    )


def load_properties_text(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Return the entries of a body, as `Properties.load` reads them. Raises BodyError if it is not UTF-8."""
    return parse_properties(_decoded(data))


def load_properties_file(data: bytes) -> dict[str, str]:
    """Return the entries of a file. Comments may have any encoding. Raises BodyError if a name or value is
    not UTF-8.
    """
    try:
        text = unmarked(data).decode("utf-8", "surrogateescape")
    except ValueError as error:
        raise BodyError(str(error)) from None
    for line in _logical_lines(text):
        if re.search(_NOT_UTF8, line):
            match = re.fullmatch(_ENTRY, line)
            name = "" if match is None or re.search(_NOT_UTF8, match[1]) else _unescape(match[1])
            raise BodyError(
                f"the value of {name} is not UTF-8" if name else "the name of a property is not UTF-8"
            )
    return parse_properties(text)


def decode_properties_text(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Return the entries of a body that RocketMQ wrote. Raises BodyError if it is not UTF-8."""
    text = _decoded(data)
    matches = (re.fullmatch(_RAW_ENTRY, line) for line in _lines(text) if not _is_comment(line))
    return {match[1]: match[2] for match in matches if match}


def encode_properties_text(properties: Mapping[str, str]) -> bytes:
    """Return the body with some entries. Raises ValueError for a name or value that could not be read
    back.
    """
    for name, value in properties.items():
        if not name or re.search(r"[=:\s]|^[#!]", name) or re.search(r"[\r\n]", value):
            raise ValueError(f"property {name!r} cannot be written as a line of text")
    return format_properties(properties).encode()


def _lines(text: str) -> Iterator[str]:
    return (line.lstrip(_BLANKS) for line in re.split(_LINE_END, text))


def _is_comment(line: str) -> bool:
    return line[:1] in ("", "#", "!")


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments; a line that ends with an odd number of backslashes continues on
    the next.
    """
    parts: list[str] = []
    for line in _lines(text):
        if not parts and _is_comment(line):
            continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2
        parts.append(line[: len(line) - continues])
        if not continues:
            yield "".join(parts)
            parts.clear()
    # The last line may end with a backslash.
    yield "".join(parts)


def _unescape(text: str) -> str:
    return re.sub(_ESCAPE, _escaped_character, text) if "\\" in text else text


def _escaped_character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROLS.get(code, code)


def _escape(match: re.Match[str]) -> str:
    return "\\" + _LETTERS.get(match[0], match[0])


def _decoded(data: bytes | bytearray | memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise BodyError(f"properties text is not UTF-8 at byte {error.start}") from None
