"""Configuration files of broker and name server, and changes at run time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rmqcli.broker.assembly import assemble
from rmqcli.broker.config import (
    BrokerConfig,
    NamesrvConfig,
    config_from_properties,
    config_properties,
    config_text,
    expand_path,
    load_config,
    property_names,
    read_properties,
    update_config,
    warn_unknown,
    write_properties,
)
from rmqcli.broker.config.checks import check_values, unsupported
from rmqcli.broker.errors import ConfigError, Refusal
from rmqcli.broker.namesrv import open_name_server
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.store.config import StoreConfig
from rmqcli.codec.bodies.config import parse_properties
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.remoting.frame import decode_frame
from tests.broker.support import fake_broker, virtual_now
from tests.codec.wire import load_wire

BROKER_CONF = r"""
# a comment
! another
brokerClusterName = DefaultCluster
brokerName: broker-\
            a
brokerIP1 10.1.2.3
brokerId=1
listenPort=20911
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
autoCreateTopicEnable=FALSE
storePathRootDir=/data/store
storePathCommitLog=/fast/commitlog
mappedFileSizeCommitLog=1048576
messageDelayLevel=1s 2s @@
useTLS=false
checkCRCOnRecover=false
enableDLegerCommitLog=false
dLegerGroup=g\u0031
isEnableBatchPush=true
nobodyKnowsThis=1
brokerip1=x
"""


def test_a_broker_conf_is_read_with_java_names(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(BROKER_CONF.replace("@@", "  "))
    config, unknown = load_config(BrokerConfig, path)
    assert unknown == ["nobodyKnowsThis", "brokerip1"]
    assert (config.broker_cluster_name, config.broker_name, config.broker_id) == (
        "DefaultCluster",
        "broker-a",
        1,
    )
    assert (config.broker_ip1, config.listen_port) == ("10.1.2.3", 20911)
    assert config.auto_create_topic_enable is False
    assert config.check_crc_on_recover is False
    assert config.message_delay_level == "1s 2s"
    assert (config.d_leger_group, config.is_enable_batch_push) == ("g1", True)
    store = StoreConfig.of(config)
    assert (store.root, store.commit_log_folder) == (Path("/data/store"), Path("/fast/commitlog"))
    assert store.mapped_file_size_commit_log == 1048576
    assert store.mapped_file_size_consume_queue is None  # Java's default: files that exist keep their size
    assert store.message_delay_level == "1s 2s"


def test_every_property_that_java_lists_is_known() -> None:
    seen = 0
    wire = load_wire("json")
    kinds: dict[object, type] = {26: BrokerConfig, 319: NamesrvConfig}
    for row, frame in zip(wire.index, wire.frames, strict=True):
        kind: Any = kinds.get(row.get("reqcode"))
        if kind is not None:
            listed = parse_properties(bytes(decode_frame(frame[4:]).body).decode())
            config, unknown = config_from_properties(kind, listed)
            assert unknown == []
            assert config_properties(config).items() >= listed.items()
            seen += 1
    assert seen >= 2


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_a_configuration_is_read_back_from_its_text(kind: type[BrokerConfig] | type[NamesrvConfig]) -> None:
    config = kind()
    assert config_from_properties(kind, parse_properties(config_text(config))) == (config, [])


@pytest.mark.parametrize(
    ("entry", "named"),
    [("listenPort=many", "listenPort"), ("autoCreateTopicEnable=perhaps", "autoCreateTopicEnable")],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_name(tmp_path: Path, entry: str, named: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(entry)
    with pytest.raises(ConfigError, match=named):
        load_config(BrokerConfig, path)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("listenPort=many", "listenPort=many: a number is expected"),
        ("aclEnable=perhaps", "aclEnable=perhaps: true or false is expected"),
    ],
)
def test_a_value_of_the_wrong_kind_is_quoted_as_written(entry: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{text}$"):
        config_from_properties(BrokerConfig, parse_properties(entry))


@pytest.mark.parametrize(
    "entry",
    [
        "flushDiskType=FOO",
        "brokerRole=MASTER",
        "listenPort=65536",
        "brokerId=-1",
        "defaultTopicQueueNums=0",
        "mappedFileSizeCommitLog=3",
        "mappedFileSizeConsumeQueue=20",
        "mappedFileSizeTimerLog=0",
        "timerMaxDelaySec=-1",
        "timerCongestNumEachSlot=-1",
        "deleteWhen=24",
        "deleteWhen=04;",
        "fileReservedTime=-1",
        "storePathCommitLog=/a,/b",
        "readOnlyCommitLogStorePaths=/old",
        "diskMaxUsedSpaceRatio=101",
        "brokerName=",
        "brokerName=../b",
        "brokerName=my broker",
        "brokerName=" + "b" * 128,
        "brokerClusterName=",
        "brokerClusterName=my cluster",
        "brokerClusterName=" + "c" * 116,
        "brokerClusterName=TBW102",
        "regionId=" + "r" * 128,
        "msgTraceTopicName=my traces",
        "msgTraceTopicName=SCHEDULE_TOPIC_XXXX",
        "maxErrorRateOfBloomFilter=0",
        "maxErrorRateOfBloomFilter=100",
        "expectConsumerNumUseFilter=0",
        "expectConsumerNumUseFilter=16385",
        "brokerPermission=8",
        "defaultTopicQueueNums=65537",
        "mappedFileSizeCommitLog=2147483648",
        "maxMessageSize=2147483648",
        "maxHashSlotNum=0",
        "maxIndexNum=1",
        "registerBrokerTimeoutMills=0",
        "flushIntervalCommitLog=-1",
        "flushIntervalConsumeQueue=0",
        "syncFlushTimeout=0",
        "cleanResourceInterval=-1",
        "deleteCommitLogFilesInterval=-1",
        "serverChannelMaxIdleTimeSeconds=0",
        "serverSocketBacklog=0",
        "serverSocketBacklog=2147483648",
        "maxConnections=0",
        "maxOutgoingBytes=0",
    ],
)
def test_an_invalid_value_is_refused_with_its_name(entry: str) -> None:
    config, _ = config_from_properties(BrokerConfig, parse_properties(entry))
    with pytest.raises(ConfigError, match=f"^{entry}: .* is expected$"):
        check_values(config)


@pytest.mark.parametrize(
    "entry",
    [
        "listenPort=-1",
        "scanNotActiveBrokerInterval=0",
        "brokerExpiredTime=0",
        "serverChannelMaxIdleTimeSeconds=-1",
        "serverSocketBacklog=0",
        "serverSocketBacklog=2147483648",
        "maxConnections=0",
        "maxOutgoingBytes=0",
    ],
)
async def test_a_name_server_does_not_start_with_an_invalid_value(entry: str) -> None:
    config, _ = config_from_properties(NamesrvConfig, parse_properties(f"kvConfigPath=\n{entry}"))
    with pytest.raises(ConfigError, match=f"^{entry}: .* is expected$"):
        async with open_name_server(config):
            pass


def test_special_values_of_java_are_accepted() -> None:
    check_values(NamesrvConfig())
    check_values(BrokerConfig())
    entries = "deleteWhen=04; 16\nflushDiskType=SYNC_FLUSH\nbrokerRole=SLAVE\nbrokerId=1\nlistenPort=0\nfileReservedTime=0"
    config, _ = config_from_properties(BrokerConfig, parse_properties(entries))
    check_values(config)


def test_unsupported_features_are_reported_by_name() -> None:
    assert unsupported(BrokerConfig()) == []
    config = BrokerConfig(enable_lmq=True, enable_multi_dispatch=True)
    assert [text.partition(" is not supported: ")[0] for text in unsupported(config)] == [
        "enableLmq=true",
        "enableMultiDispatch=true",
    ]


def test_a_slave_does_not_register_with_the_id_of_its_master() -> None:
    """It would register with id 0, as in Java, and the clients of its master would connect to it."""
    with pytest.raises(ConfigError, match="brokerId=0 is the master's"):
        check_values(BrokerConfig(broker_role="SLAVE"))
    check_values(BrokerConfig(broker_role="SLAVE", broker_id=1))


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        load_config(BrokerConfig, tmp_path / "missing.conf")
    (tmp_path / "latin.conf").write_bytes(b"brokerName=\xe9\xff")
    with pytest.raises(ConfigError, match="latin"):
        load_config(BrokerConfig, tmp_path / "latin.conf")


def test_a_change_returns_a_new_configuration_and_the_changed_names() -> None:
    old = BrokerConfig(namesrv_addr=None, broker_config_path=None)
    update = update_config(old, {"brokerPermission": "4", "listenPort": "10911", "huh": "1"})
    assert update.config.broker_permission == 4
    assert (update.changed, update.unknown) == ({"brokerPermission": "4"}, ["huh"])
    assert update.config == BrokerConfig(broker_permission=4)
    assert old.broker_permission == 6


def test_a_change_does_not_restore_defaults() -> None:
    update = update_config(NamesrvConfig(kv_config_path=None), {"clusterTest": "true"})
    assert update.config == NamesrvConfig(kv_config_path=None, cluster_test=True)


def test_a_forbidden_name_forbids_the_whole_change() -> None:
    old = BrokerConfig()
    with pytest.raises(Refusal, match="Can not update config in black list") as refused:
        update_config(old, {"brokerPermission": "4", "brokerConfigPath": "/etc/passwd"})
    assert refused.value.code == ResponseCode.NO_PERMISSION
    for wrong in ("all", "8"):
        with pytest.raises(Refusal, match="brokerPermission") as refused:
            update_config(old, {"brokerPermission": wrong})
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert old == BrokerConfig()


def test_each_unknown_name_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    warn_unknown(["a", "b"], "broker.conf")
    assert [record.getMessage() for record in caplog.records] == [
        "broker.conf: unknown property a is ignored",
        "broker.conf: unknown property b is ignored",
    ]


def test_limits_and_paths_come_from_the_configuration() -> None:
    config = BrokerConfig(
        max_connections=7, server_channel_max_idle_time_seconds=9, max_outgoing_bytes=1 << 20
    )
    limits = ServerLimits.of(config)
    assert (limits.max_connections, limits.idle_seconds, limits.session.max_outgoing_bytes) == (7, 9, 1 << 20)
    assert expand_path("${user.home}/store") == expand_path("~/store") == Path.home() / "store"


def test_a_properties_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    write_properties(path, {"a": "1"})
    write_properties(path, {"a": "2", "b": "x y"})
    assert read_properties(path) == {"a": "2", "b": "x y"}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.properties", "x.properties.bak"]


def test_trailing_blanks_of_a_value_are_removed() -> None:
    config, _ = config_from_properties(BrokerConfig, {"listenPort": "1 ", "brokerName": "a\t"})
    assert (config.listen_port, config.broker_name) == (1, "a")


@pytest.mark.parametrize("region", ["a\x02KEYS\x01b", "a\0b", "\ud800", "two\nlines"])
def test_a_region_is_a_property_of_each_message(region: str) -> None:
    with pytest.raises(ConfigError, match="regionId"):
        check_values(BrokerConfig(region_id=region))


def test_names_with_which_requests_get_no_reply_are_named(tmp_path: Path) -> None:
    (line,) = unsupported(BrokerConfig(broker_cluster_name="prod.eu"))
    assert "brokerClusterName=prod.eu: requests get no reply" in line
    assert not unsupported(BrokerConfig(broker_cluster_name="c" * 115))


EXTREMES = {
    int: ("-1", "0", str(2**31 - 1), str(2**63 - 1), str(10**30)),
    str: ("", "x y", "a/b", "é", "x" * 5000),
}


def accepted(old: Any) -> Iterator[Any]:
    """The configurations after each change of one property to an extreme value that is not refused."""
    kind: type[msgspec.Struct] = type(old)
    for name, field in property_names(kind).items():
        for value in EXTREMES.get(type(getattr(old, field)), ()):
            with suppress(Refusal):
                yield update_config(old, {name: value}).config


async def test_what_a_start_refuses_a_change_refuses(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        context = broker.context
        changed = list(accepted(context.config))
        for config in changed:
            check_values(config)
            ServerLimits.of(config)
            assemble(config, context.address, context.store_host, virtual_now, context.rng, context.store)
        assert len(changed) > 200


async def test_what_a_name_server_refuses_at_its_start_a_change_refuses() -> None:
    changed = list(accepted(NamesrvConfig(kv_config_path=None, config_store_path=None)))
    for config in changed:
        check_values(config)
        ServerLimits.of(config)
    assert len(changed) > 20


def test_files_that_were_edited_on_windows(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_bytes(b"\xef\xbb\xbflistenPort=9999\r\n" + "# 端口\r\n".encode("gbk"))
    assert load_config(NamesrvConfig, path) == (NamesrvConfig(listen_port=9999), [])
    assert load_config(BrokerConfig, path)[0].listen_port == 9999
    path.write_bytes(b"brokerName=caf\xe9\n")
    with pytest.raises(ConfigError, match=r"server\.conf: the value of brokerName is not UTF-8"):
        load_config(BrokerConfig, path)
