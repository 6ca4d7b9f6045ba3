"""What a query reads of a commit log, and what it does when consume queues or records are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store.consume_queue import ENTRY
from tests.codec.samples import make_record
from tests.export.support import harm_another_topic
from tests.sql.conftest import Ask
from tests.support import CONSUME_QUEUE_FILE_SIZE, JavaStore

Asking = Callable[..., Ask]
Copy = Callable[[str], JavaStore]
TOPIC = "SeedTags"


def share(store: JavaStore, counts: list[int]) -> float:
    """Returns bytes read as a part of the records of a store."""
    size: int = sum(line["size"] for line in store.of_kind("msg"))
    return sum(counts) / size


def test_a_query_of_one_topic_reads_little_of_the_log(
    store_clean: JavaStore, asking: Asking, bytes_read: list[int], show: Callable[[str], None]
) -> None:
    assert asking(store_clean)(f"select count(*) from {TOPIC}") == [(300,)]
    part = share(store_clean, bytes_read)
    assert 0.02 < part < 0.05
    show(f"{part:.1%} of the log is read for a topic of 300 messages of 3,090")
    bytes_read.clear()
    assert asking(store_clean, walk=True)(f"select count(*) from {TOPIC}") == [(300,)]
    assert share(store_clean, bytes_read) >= 1, "the count sees a walk"


@pytest.mark.parametrize(
    ("condition", "rows", "most"),
    [
        ("queue_id = 1", 75, 0.3),
        ("queue_offset < 5", 20, 0.1),
        ("queue_id = 1 and queue_offset between 10 and 19", 10, 0.05),
        ("queue_offset > 100000", 0, 0.02),
        ("topic = 'SeedOrder'", 0, 0),
        ("queue_id = 0 and queue_id = 1", 0, 0),
        ("store_timestamp < '2026-01-01'", 0, 0.02),
        ("queue_id in (1, 3)", 150, 0.55),
        ("queue_id = 0 or queue_id = 3", 150, 0.55),
    ],
)
def test_conditions_decide_what_is_read(
    store_clean: JavaStore, asking: Asking, bytes_read: list[int], condition: str, rows: int, most: float
) -> None:
    """As a part of the 57,140 bytes of the topic; one record behind the queues is always looked at."""
    assert asking(store_clean)(f"select count(*) from {TOPIC} where {condition}") == [(rows,)]
    assert sum(bytes_read) <= most * 57140 + (1000 if most else 0)


def test_all_messages_of_one_topic(store_clean: JavaStore, asking: Asking, bytes_read: list[int]) -> None:
    ask = asking(store_clean)
    names = "('SeedTags', '%DLQ%seed_retry_group', 'nowhere')"
    assert ask(f"select count(*) from rmq.messages where topic in {names}") == [(304,)]
    assert share(store_clean, bytes_read) < 0.05


def test_a_limit_ends_the_reading(store_clean: JavaStore, asking: Asking) -> None:
    ask = asking(store_clean)
    assert len(ask("select * from SeedNormal limit 3")) == 3
    assert ask("select count(*) from SeedNormal") == [(1500,)], "the session goes on"


def spoil_queue(store: JavaStore) -> None:
    """Makes the last entry of a queue file point into another record."""
    path = store.root / "consumequeue" / TOPIC / "1" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    offset, size, tags = ENTRY.unpack_from(data, 74 * ENTRY.size)
    ENTRY.pack_into(data, 74 * ENTRY.size, offset + 1, size, tags)
    assert len(data) == CONSUME_QUEUE_FILE_SIZE
    path.write_bytes(data)


def test_a_wrong_queue_is_not_used(
    copy_java_store: Copy, asking: Asking, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_java_store("store-clean")
    spoil_queue(store)
    ask = asking(store)
    assert ask(f"select count(*) from {TOPIC}") == [(300,)]
    assert "the whole commit log is read instead" in capsys.readouterr().err
    assert ask(f"select count(*) from {TOPIC}") == [(300,)]
    assert capsys.readouterr().err == "", "known by now"


def damage(store: JavaStore, topic: str) -> None:
    """Changes a byte of the body of the topic's first record."""
    line = next(line for line in store.of_kind("msg") if line["topic"] == topic)
    number, place = divmod(line["phy"], 512 * 1024)
    data = bytearray(store.commit_logs[number].read_bytes())
    data[place + 90] ^= 0xFF
    store.commit_logs[number].write_bytes(data)


def test_damage(copy_java_store: Copy, asking: Asking) -> None:
    store = copy_java_store("store-clean")
    damage(store, TOPIC)
    with pytest.raises(CorruptionError, match=r"byte \d+: the CRC of a body is wrong"):
        asking(store)(f"select count(*) from {TOPIC}")
    assert asking(store)("select count(*) from SeedOrder") == [(200,)], "another topic is not affected"
    assert asking(store, verify=False)(f"select count(*) from {TOPIC}") == [(300,)]


def test_damage_elsewhere_does_not_matter(copy_java_store: Copy, asking: Asking) -> None:
    store = copy_java_store("store-clean")
    harm_another_topic(store, {TOPIC})
    assert asking(store)(f"select count(*) from {TOPIC}") == [(300,)]


def test_a_missing_file_is_damage(copy_java_store: Copy, asking: Asking) -> None:
    store = copy_java_store("store-clean")
    (store.root / "commitlog" / f"{1024 * 1024:020d}").unlink()
    statement = f"select count(*) from {TOPIC}"
    with pytest.raises(CorruptionError, match=f"of topic {TOPIC}"):
        asking(store)(statement)
    ((rows,),) = asking(store, verify=False)(statement)
    assert rows < 300


def test_half_messages_are_in_no_table(tmp_path: Path, asking: Asking) -> None:
    """Old brokers wrote them with the topic of their message; no queue has them."""
    for name in ("a", "b"):
        (tmp_path / "store" / "consumequeue" / name).mkdir(parents=True)
    (tmp_path / "store" / "commitlog").mkdir()
    data = b""
    for topic, flag in ((b"a", 0), (b"a", MessageSysFlag.TRANSACTION_PREPARED), (b"c", 0)):
        data += make_record(topic=topic, sys_flag=int(flag), physical_offset=len(data))
    (tmp_path / "store" / "commitlog" / f"{0:020d}").write_bytes(data)
    ask = asking(JavaStore(tmp_path))
    assert ask("select topic, count(*) from rmq.messages group by 1") == [("a", 1)]
    assert ask("select count(*) from a") == [(1,)]


def test_a_killed_store(store_killed: JavaStore, asking: Asking, bytes_read: list[int]) -> None:
    """Its queues may lag behind its commit log, so it is walked."""
    topic, count = Counter(line["topic"] for line in store_killed.of_kind("msg")).most_common(1)[0]
    lines = [line for line in store_killed.of_kind("msg") if line["topic"] == topic]
    assert asking(store_killed)(f'select count(*) from "{topic}"') == [(count,)]
    assert sum(bytes_read) > sum(line["size"] for line in lines)
