from __future__ import annotations

import re

import pytest

from rmqcli.codec.codes import (
    LanguageCode,
    MessageSysFlag,
    Perm,
    PullSysFlag,
    RequestCode,
    ResponseCode,
    SerializeType,
)
from rmqcli.codec.versions import CURRENT_VERSION, version_name
from tests.codec.wire import Wire

SAMPLES = [
    (RequestCode, 10, "SEND_MESSAGE"),
    (RequestCode, 11, "PULL_MESSAGE"),
    (RequestCode, 34, "HEART_BEAT"),
    (RequestCode, 105, "GET_ROUTEINFO_BY_TOPIC"),
    (RequestCode, 220, "RESET_CONSUMER_CLIENT_OFFSET"),
    (RequestCode, 310, "SEND_MESSAGE_V2"),
    (RequestCode, 329, "DELETE_EXPIRED_COMMITLOG"),
    (RequestCode, 200151, "BATCH_ACK_MESSAGE"),
    (RequestCode, 200079, "TRIGGER_LITE_DISPATCH"),
    (ResponseCode, 0, "SUCCESS"),
    (ResponseCode, 3, "REQUEST_CODE_NOT_SUPPORTED"),
    (ResponseCode, 22, "QUERY_NOT_FOUND"),
    (ResponseCode, 209, "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"),
    (ResponseCode, 210, "DELETE_ACL_CONFIG_FAILED"),
    (ResponseCode, 211, "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED"),
    (ResponseCode, 1500, "GO_AWAY"),
    (ResponseCode, 2016, "CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS"),
    (LanguageCode, 3, "PYTHON"),
    (LanguageCode, 9, "GO"),
    (LanguageCode, 13, "NODE_JS"),
    (SerializeType, 1, "ROCKETMQ"),
    (Perm, 4, "READ"),
    (PullSysFlag, 16, "LITE_PULL"),
]


@pytest.mark.parametrize(("table", "number", "name"), SAMPLES)
def test_numbers_and_names(table: type, number: int, name: str) -> None:
    assert table(number).name == name
    assert table[name] == number  # type: ignore[index]


def test_how_many_there_are() -> None:
    assert len(RequestCode) == 171
    assert [int(language) for language in LanguageCode] == list(range(14))
    assert {code.value for code in ResponseCode} >= {
        *range(5),
        *range(10, 30),
        *range(200, 214),
        *range(2000, 2019),
    }


def test_reused_numbers_have_the_later_name_as_an_alias() -> None:
    members = ResponseCode.__members__
    assert members["UPDATE_AND_CREATE_ACL_CONFIG_FAILED"] is ResponseCode.POLLING_FULL
    assert members["DELETE_ACL_CONFIG_FAILED"] is ResponseCode.POLLING_TIMEOUT
    assert members["UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED"] is ResponseCode.BROKER_NOT_EXIST


def test_every_recorded_code_has_a_name(wire: Wire) -> None:
    unknown = {row["code"] for row in wire.index if row["type"] != "response"} - set(RequestCode)
    # the test program asks for this one to see it refused
    assert unknown <= {29999}
    assert {row["code"] for row in wire.index if row["type"] == "response"} <= set(ResponseCode)


def test_sys_flag_bits_do_not_overlap() -> None:
    parts = [
        MessageSysFlag.COMPRESSED,
        MessageSysFlag.MULTI_TAGS,
        MessageSysFlag.TRANSACTION_MASK,
        MessageSysFlag.BORN_HOST_V6,
        MessageSysFlag.STORE_HOST_V6,
        MessageSysFlag.COMPRESSION_MASK,
    ]
    assert sum(parts) == 0x73F
    assert MessageSysFlag.ZLIB == MessageSysFlag.LZ4 | MessageSysFlag.ZSTD


# from the table and the gates of `MQVersion`
VERSIONS = [
    ("V3_0_0_SNAPSHOT", 0),
    ("V3_0_1", 17),
    ("V3_0_7_SNAPSHOT", 28),
    ("V3_0_7", 29),
    ("V3_0_11", 37),
    ("V3_1_8_SNAPSHOT", 62),
    ("V3_1_8", 63),
    ("V3_2_6", 79),
    ("V3_4_9", 121),
    ("V3_5_8", 137),
    ("V3_9_9", 211),
    ("V4_0_0", 213),
    ("V4_1_0_SNAPSHOT", 232),
    ("V4_1_0", 233),
    ("V4_3_0", 273),
    ("V4_4_0", 293),
    ("V4_5_1", 315),
    ("V4_6_0", 333),
    ("V4_7_1", 355),
    ("V4_8_0", 373),
    ("V4_9_0", 393),
    ("V4_9_4", 401),
    ("V4_9_7", 407),
    ("V4_9_8", 409),
    ("V5_0_0", 413),
    ("V5_1_4", 441),
    ("V5_2_0", 453),
    ("V5_3_1", 475),
    ("V5_3_3", 479),
    ("HIGHER_VERSION", 612),
]


@pytest.mark.parametrize(("name", "number"), VERSIONS)
def test_names_of_versions(name: str, number: int) -> None:
    assert version_name(number) == name


def test_every_version_has_a_name_of_its_own() -> None:
    assert len({version_name(number) for number in range(613)}) == 613


def test_releases_from_4_follow_the_formula() -> None:
    for number in range(213, 612, 2):
        major, minor, patch = map(int, re.findall(r"\d+", version_name(number)))
        assert number == 213 + 2 * ((major - 4) * 100 + minor * 10 + patch)


@pytest.mark.parametrize("number", [-1, 612, 613, 10**9])
def test_numbers_beyond_the_enum(number: int) -> None:
    assert version_name(number) == "HIGHER_VERSION"


def test_we_advertise_4_9_8() -> None:
    assert version_name(CURRENT_VERSION) == "V4_9_8"
