"""Messages, properties, ids, hashes, names, batches, compression, tag expressions."""

from __future__ import annotations

import random
import sys
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import construct
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec import compression
from rmqcli.codec.batch_item import BATCH_ITEM
from rmqcli.codec.compression import compress, decompress
from rmqcli.codec.core.hashing import crc32, index_key_hash, java_string_hash, tags_code
from rmqcli.codec.errors import (
    BodyError,
    CorruptionError,
    HeaderError,
    LocalProtocolError,
    MissingLibrary,
    SelectorError,
)
from rmqcli.codec.ids import (
    UniqIdFactory,
    host_text,
    joined_offset_msg_ids,
    offset_msg_id,
    pack_host,
    pack_host_text,
    parse_offset_msg_id,
    time_of_uniq_id,
    unpack_host,
)
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import decode_batch, encode_batch
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import (
    check_group,
    check_topic,
    dlq_topic,
    is_system_group,
    is_system_topic,
    reply_topic,
    retry_topic,
)
from rmqcli.codec.properties import decode_properties, encode_properties, properties_problem, sound_text
from rmqcli.codec.property_names import priority
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.selector import parse_tags, tag_codes, tag_subscription
from tests.codec.samples import make_record

ZSTD: Any = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
PLAIN = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]), min_size=1)


def hash_by_definition(text: str) -> int:
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


class TestProperties:
    @given(st.dictionaries(PLAIN, PLAIN))
    def test_round_trip(self, properties: dict[str, str]) -> None:
        data = encode_properties(properties)
        assert decode_properties(data) == properties
        assert decode_properties(data + b"\x02") == properties
        assert not data.endswith(b"\x02")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (b"", {}),
            (b"\x02\x02", {}),
            (b"a\x01", {}),
            (b"\x01b", {}),
            (b"a\x01\x02b\x011", {"b": "1"}),
            (b"a", {}),
            (b"a\x011\x02a\x012\x02", {"a": "2"}),
            (b"a\x01x\x01y", {"a": "x\x01y"}),
            (b"a\x01\x01", {"a": "\x01"}),
            (b"k\x01\xff", {"k": "\ufffd"}),
        ],
    )
    def test_quirks(self, text: bytes, expected: dict[str, str]) -> None:
        assert decode_properties(text) == expected
        assert decode_properties(memoryview(text)) == expected

    def test_too_long(self) -> None:
        assert len(encode_properties({"a": "x" * 32765})) == 32767
        with pytest.raises(LocalProtocolError):
            encode_properties({"a": "x" * 32766})

    def test_a_lone_surrogate_is_written_as_java_does(self) -> None:
        assert encode_properties({"a": "\ud800"}) == b"a\x01?"


class TestHashes:
    @given(st.text())
    def test_string_hash(self, text: str) -> None:
        assert java_string_hash(text) == hash_by_definition(text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("", 0), ("TagA", 2598919), ("TagB", 2598920), ("polygenelubricants", -(2**31))],
    )
    def test_known_values(self, text: str, expected: int) -> None:
        assert java_string_hash(text) == expected
        assert tags_code(text) == expected

    def test_long_and_wide_texts(self) -> None:
        for text in ("x" * 1000, "\U0001f600" * 100, "\U0001f600" + "a" * 63, "é" * 65):
            assert java_string_hash(text) == hash_by_definition(text)

    def test_no_tags(self) -> None:
        assert tags_code(None) == 0

    @given(st.text(max_size=10), st.text(max_size=60))
    def test_index_key_hash(self, topic: str, key: str) -> None:
        expected = abs(hash_by_definition(f"{topic}#{key}"))
        assert index_key_hash(topic, key) == (expected if expected < 2**31 else 0)

    def test_index_key_hash_without_a_positive(self) -> None:
        key = "1LG3HE3"
        assert java_string_hash(f"T#{key}") == -(2**31)
        assert index_key_hash("T", key) == 0

    def test_crc_has_31_bits(self) -> None:
        assert zlib.crc32(b"b") > 2**31 or zlib.crc32(b"a") > 2**31
        for body in (b"a", b"b", b""):
            assert crc32(body) == zlib.crc32(body) % 2**31


class TestIds:
    def test_offset_msg_id(self) -> None:
        text = offset_msg_id(bytes((127, 0, 0, 1)), 10911, 0x1C0D)
        assert text == "7F00000100002A9F0000000000001C0D"
        assert parse_offset_msg_id(text) == ("127.0.0.1", 10911, 0x1C0D)

    @pytest.mark.parametrize("address", ["127.0.0.1", "2001:db8::1"])
    @pytest.mark.parametrize("offsets", [(), (7,), (0, 2**40, 2**63 - 1)])
    def test_joined_offset_msg_ids(self, address: str, offsets: tuple[int, ...]) -> None:
        packed = pack_host(address, 10911)
        joined = ",".join(offset_msg_id(packed[:-4], 10911, offset) for offset in offsets)
        assert joined_offset_msg_ids(packed, offsets) == joined

    def test_offset_msg_id_v6(self) -> None:
        text = offset_msg_id(pack_host("2001:db8::1", 1)[:16], 10911, 2**40)
        assert len(text) == 56
        assert parse_offset_msg_id(text.lower()) == ("2001:db8::1", 10911, 2**40)

    @pytest.mark.parametrize(
        "text", ["", "7F", "x" * 32, "7F" * 17, " 7F00000100002A9F0000000000001C0", "é" * 32]
    )
    def test_no_ids(self, text: str) -> None:
        with pytest.raises(HeaderError):
            parse_offset_msg_id(text)
        with pytest.raises(HeaderError):
            time_of_uniq_id(text, 0, UTC)

    def test_uniq_ids(self) -> None:
        now = int(datetime(2026, 11, 21, 1, 32, 56, 27000, UTC).timestamp() * 1000)
        ids = UniqIdFactory(bytes((192, 0, 2, 2)), 0x17B4A, 0x5FFD2B27, lambda: now, UTC)
        first, second = ids.next(), ids.next()
        assert first == "C00002027B4A5FFD2B276754455B0000"
        assert second == first[:-1] + "1"
        assert time_of_uniq_id(first, now + 1, UTC) == now

    def test_the_counter_wraps(self) -> None:
        ids = UniqIdFactory(b"\x01\x02\x03\x04", 1, 2, lambda: 10**12, UTC)
        made = [ids.next() for _ in range(65537)]
        assert made[0] == made[65536]
        assert len(set(made)) == 65536

    def test_the_month_changes(self) -> None:
        zone = timezone(timedelta(hours=8))
        clock = datetime(2026, 1, 31, 23, 59, 59, tzinfo=zone)
        ids = UniqIdFactory(b"\x01\x02\x03\x04", 1, 2, lambda: int(clock.timestamp() * 1000), zone)
        late = ids.next()
        sent = int(clock.timestamp() * 1000)
        clock += timedelta(seconds=2)
        now = int(clock.timestamp() * 1000)
        assert int(ids.next()[20:28], 16) == 1000
        assert time_of_uniq_id(late, now, zone) == sent

    def test_a_clock_that_steps_back(self) -> None:
        now = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp() * 1000)
        clock = [now, now - 5000]
        ids = UniqIdFactory(b"\x01\x02\x03\x04", 1, 2, lambda: clock.pop(0), UTC)
        assert ids.next()[20:28] == "00000000"

    @given(st.ip_addresses(), st.integers(0, 65535))
    def test_hosts(self, address: object, port: int) -> None:
        packed = pack_host(str(address), port)
        assert unpack_host(packed)[1] == port
        assert pack_host_text(host_text(packed)) == packed

    @pytest.mark.parametrize("text", ["", "localhost:1", "1.2.3.4", "1.2.3.4:x", "1.2.3:4"])
    def test_bad_hosts(self, text: str) -> None:
        with pytest.raises(LocalProtocolError):
            pack_host_text(text)

    def test_bad_packed_host(self) -> None:
        with pytest.raises(CorruptionError):
            unpack_host(b"123")


class TestMessage:
    def test_of(self) -> None:
        message = Message.of(
            "T", "höre", tags="a", keys=["k1", "k2"], delay_level=3, properties={"x": "y"}, flag=7
        )
        assert message.body == "höre".encode()
        assert message.tags == "a"
        assert message.keys == ["k1", "k2"]
        assert message.delay_level == 3
        assert message.flag == 7
        assert message.uniq_key is None
        assert message.with_properties({"UNIQ_KEY": "u"}, z="1").properties == {
            "x": "y",
            "TAGS": "a",
            "KEYS": "k1 k2",
            "DELAY": "3",
            "UNIQ_KEY": "u",
            "z": "1",
        }

    @pytest.mark.parametrize("level", ["", "x", "-1", "9" * 5000, "٣"])
    def test_delay_level_that_is_none(self, level: str) -> None:
        assert Message(topic="T", properties={"DELAY": level}).delay_level == 0

    def test_priority(self) -> None:
        assert Message.of("T", priority=0).properties == {"_SYS_MSG_PRIORITY_": "0"}
        assert priority(Message.of("T", priority=7).properties) == 7
        for other in ({"DELAY": "1"}, {"TIMER_DELAY_MS": "1"}, {"TRAN_MSG": "true"}, {"__SHARDINGKEY": "k"}):
            assert priority({"_SYS_MSG_PRIORITY_": "7"} | other) == -1
        assert {priority({"_SYS_MSG_PRIORITY_": text}) for text in ("", "-1", "x", "٣", "1" * 11)} == {-1}
        with pytest.raises(ValueError, match="0 or more"):
            Message.of("T", priority=-1)

    def test_one_key_as_text(self) -> None:
        assert Message.of("T", b"", keys="k1").keys == ["k1"]

    def test_stored_message(self) -> None:
        message = decode_record(make_record(properties=b"UNIQ_KEY\x01U\x02KEYS\x01a  b \x02TAGS\x01t"))
        assert message.msg_id == "U"
        assert message.keys == ["a", "b"]
        assert message.tags == "t"
        assert message.queue == MessageQueue("TopicA", "", 1)

    def test_queues_sort_and_hash(self) -> None:
        queues = [MessageQueue("T", "b", 1), MessageQueue("T", "a", 10), MessageQueue("T", "a", 2)]
        assert [str(queue) for queue in sorted(queues)] == ["T@a:2", "T@a:10", "T@b:1"]
        assert len({*queues, MessageQueue("T", "b", 1)}) == 3


class TestNames:
    @pytest.mark.parametrize("name", ["a", "%RETRY%g-1_x|y", "Z" * 120])
    def test_good(self, name: str) -> None:
        check_topic(name)
        check_group(name)
        check_topic(retry_topic(name))
        check_topic(dlq_topic(name))

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("", "blank"),
            (" \t", "blank"),
            ("a b", "illegal"),
            ("a\n", "illegal"),
            ("é", "illegal"),
            ("a" * 128, "max length"),
        ],
    )
    def test_bad_topics(self, name: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_topic(name)

    @pytest.mark.parametrize(
        ("name", "message"), [("", "blank"), ("a.b", "illegal"), ("a" * 121, "max length 120")]
    )
    def test_bad_groups(self, name: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_group(name)

    def test_system_names(self) -> None:
        assert is_system_topic("SCHEDULE_TOPIC_XXXX")
        assert is_system_topic("rmq_sys_wheel_timer")
        assert not is_system_topic("%RETRY%g")
        assert is_system_group("CID_RMQ_SYS_TRANS")
        assert not is_system_group("g")
        assert retry_topic("g") == retry_topic("%RETRY%g") == "%RETRY%g"
        assert dlq_topic("g") == "%DLQ%g"
        assert reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"


class TestBatch:
    @given(
        st.lists(
            st.tuples(st.binary(max_size=50), st.integers(-(2**31), 2**31 - 1), st.dictionaries(PLAIN, PLAIN))
        )
    )
    def test_round_trip(self, parts: list[tuple[bytes, int, dict[str, str]]]) -> None:
        messages = [Message(topic="T", body=body, flag=flag, properties=named) for body, flag, named in parts]
        data = encode_batch(messages)
        items = decode_batch(data)
        assert [(item.body, item.flag, decode_properties(item.properties)) for item in items] == parts
        oracle = construct.GreedyRange(BATCH_ITEM).parse(data)
        assert [(item.body, item.flag, item.properties) for item in oracle] == [
            (item.body, item.flag, item.properties) for item in items
        ]

    def test_refused_when_cut_or_changed(self) -> None:
        data = encode_batch([Message.of("T", b"body", tags="a"), Message.of("T", b"x")])
        whole = len(encode_batch([Message.of("T", b"body", tags="a")]))
        for length in set(range(1, len(data))) - {whole}:
            with pytest.raises(BodyError):
                decode_batch(data[:length])
        for place in (0, 3, 16, 19, 24, 25):
            with pytest.raises(BodyError):
                decode_batch(data[:place] + bytes((data[place] ^ 0x81,)) + data[place + 1 :])

    def test_flag_out_of_range(self) -> None:
        with pytest.raises(LocalProtocolError):
            encode_batch([Message.of("T", b"", flag=2**31)])


@pytest.fixture(params=["zlib", "lz4", "zstd"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fresh_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zstandard, imported again."""
    monkeypatch.setattr(compression, "_zstd_library", cache(compression._zstd_library.__wrapped__))


class TestCompression:
    @pytest.mark.parametrize(("kind", "bits"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
    def test_round_trip(self, kind: str, bits: int) -> None:
        body = b"abc" * 5000
        data, flag = compress(body, kind)
        assert flag == bits
        assert len(data) < 500
        assert decompress(memoryview(data), flag) == body
        assert decompress(data, flag, limit=len(body)) == body

    def test_limit_and_damage(self, kind: str) -> None:
        body = bytes(range(256)) * 64
        data, flag = compress(body, kind)
        with pytest.raises(CorruptionError, match="more than"):
            decompress(data, flag, limit=len(body) - 1)
        for length in range(len(data)):
            with pytest.raises(CorruptionError):
                decompress(data[:length], flag)
        with pytest.raises(CorruptionError):
            decompress(b"\xff" * 50, flag)

    def test_a_body_that_hardly_shrinks(self, kind: str) -> None:
        body = random.Random(1).randbytes(20_000)
        data, flag = compress(body, kind)
        assert decompress(data, flag) == body

    def test_a_bomb_stays_small(self, kind: str) -> None:
        data, flag = compress(bytes(64 * 1024 * 1024), kind)
        tracemalloc.start()
        try:
            with pytest.raises(CorruptionError, match="more than 100000 bytes"):
                decompress(data, flag, limit=100_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1024 * 1024

    def test_frames_without_a_size(self) -> None:
        without = {ZSTD.CompressionParameter.content_size_flag: 0}
        assert decompress(ZSTD.compress(b"x" * 10000, options=without), 0x201) == b"x" * 10000
        assert decompress(lz4.frame.compress(b"x" * 10000, store_size=False), 0x101) == b"x" * 10000

    @pytest.mark.parametrize("level", [1, 5, 9])
    @pytest.mark.parametrize("size", [1, 100, 70_000, 5 << 20])
    def test_blocks_of_lz4_are_independent(self, size: int, level: int) -> None:
        """lz4-java refuses others."""
        body = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
        data, flag = compress(body, "lz4", level)
        told = lz4.frame.get_frame_info(data)
        assert not told["block_linked"]
        assert lz4.frame.decompress(data) == body == decompress(data, flag)
        linked = lz4.frame.compress(body, block_linked=True, content_checksum=True, block_checksum=True)
        assert decompress(linked, flag) == body
        assert len(data) < 0.51 * size + 100

    @pytest.mark.parametrize(("name", "package"), [("lz4", "cramjam"), ("zstd", "backports.zstd")])
    def test_a_library_that_is_not_installed(
        self, name: str, package: str, monkeypatch: pytest.MonkeyPatch, fresh_zstd: None
    ) -> None:
        data, flag = compress(b"x" * 100, name)
        compression._zstd_library.cache_clear()
        monkeypatch.setitem(sys.modules, "compression.zstd", None)
        monkeypatch.setitem(sys.modules, package, None)
        for call in (lambda: compress(b"x", name), lambda: decompress(data, flag)):
            with pytest.raises(MissingLibrary, match=f"pip install {package}"):
                call()
        assert compress(b"x" * 100)[0]

    def test_the_module_of_python_comes_first(
        self, monkeypatch: pytest.MonkeyPatch, fresh_zstd: None
    ) -> None:
        monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
        monkeypatch.setitem(sys.modules, "compression.zstd", ZSTD)
        monkeypatch.setitem(sys.modules, "backports.zstd", None)
        assert decompress(*compress(b"x" * 100, "zstd")) == b"x" * 100

    def test_a_zstd_window_is_at_most_64_mib(self) -> None:
        for log, accepted in ((26, True), (27, False)):
            options = {
                ZSTD.CompressionParameter.window_log: log,
                ZSTD.CompressionParameter.content_size_flag: 0,
            }
            machine = ZSTD.ZstdCompressor(options=options)
            frame = machine.compress(b"x") + machine.flush()
            if accepted:
                assert decompress(frame, 0x201) == b"x"
            else:
                with pytest.raises(CorruptionError, match="zstd body"):
                    decompress(frame, 0x201)

    def test_old_flag_means_zlib(self) -> None:
        assert decompress(zlib.compress(b"x"), 0x1) == b"x"

    def test_not_compressed(self) -> None:
        assert decompress(b"x", 0x300) == b"x"

    def test_unknown_kinds(self) -> None:
        with pytest.raises(CorruptionError, match="type 4"):
            decompress(b"x", 0x401)
        with pytest.raises(LocalProtocolError):
            compress(b"x", "gzip")

    def test_decoding_a_record_decompresses(self) -> None:
        data, flag = compress(b"y" * 9000, "zstd")
        record = make_record(body=data, sys_flag=flag)
        assert decode_record(record).body == data
        message = decode_record(record, decompress=True, check_crc=True)
        assert (message.body, message.sys_flag) == (b"y" * 9000, flag)


class TestTags:
    @pytest.mark.parametrize(
        ("expression", "tags"),
        [
            (None, set()),
            ("", set()),
            ("*", set()),
            ("a", {"a"}),
            ("a||b", {"a", "b"}),
            (" a || b c ||", {"a", "b c"}),
        ],
    )
    def test_parse(self, expression: str | None, tags: set[str]) -> None:
        assert parse_tags(expression) == tags

    @pytest.mark.parametrize("expression", ["||", "||||"])
    def test_no_tag(self, expression: str) -> None:
        with pytest.raises(SelectorError):
            parse_tags(expression)

    def test_codes(self) -> None:
        codes = tag_codes(parse_tags("TagA || TagB"))
        assert codes == {2598919, 2598920}

    def test_subscription(self) -> None:
        data = tag_subscription("TopicA", "TagB || TagA", 1795222484339)
        assert (data.topic, data.sub_string, data.sub_version) == ("TopicA", "TagB || TagA", 1795222484339)
        assert (data.tags_set, data.code_set) == (["TagA", "TagB"], [2598919, 2598920])
        assert tag_subscription("T", None, 0).sub_string == "*"


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        (b"", b""),
        (b"a\x01b", b"a\x01b"),
        (b"a\x01b\x02", b"a\x01b\x02"),
        (b"a\x01b\x02a\x01c", b"a\x01b\x02a\x01c"),
        ("a\x01ü".encode(), "a\x01ü".encode()),
        (b"a\x01\xff\x02c\x01d", "a\x01\ufffd\x02c\x01d".encode()),
        (b"TTL!8000\x02a\x01b", b"a\x01b"),
        (b"\x01b", b""),
    ],
)
def test_a_sound_text_parses_and_has_the_same_pairs(text: bytes, sound: bytes) -> None:
    properties = decode_properties(text)
    assert sound_text(text, properties) == sound
    assert properties_problem(sound) is None
    assert decode_properties(sound) == properties
