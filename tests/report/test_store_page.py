"""The page about a store folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rmqcli.codec.records.reading import decode_record
from rmqcli.report.html import html_of
from rmqcli.report.page import Series
from rmqcli.report.store.sections import store_page
from rmqcli.report.store.topics import StoreReading, read_store
from rmqcli.report.times import by_share, over_time
from tests.report.pages import HOSTILE, NOW, of_store, silent
from tests.report.parsing import read
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def test_topics_have_the_figures_of_their_messages(java_store: JavaStore) -> None:
    found = read(of_store(java_store.root))
    messages = [decode_record(java_store.commit_log, line["phy"]) for line in java_store.of_kind("msg")]
    names = {message.topic for message in messages}
    rows = {row[0]: row for row in found.tables["Topics"][1:]}
    assert rows.keys() == names
    for name, row in rows.items():
        assert row[1] == f"{sum(message.topic == name for message in messages):,}"
    sizes = [sum(one.store_size for one in messages if one.topic == row) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert f"Messages {len(messages):,} " in found.text


def test_a_killed_broker_leaves_notes(store_killed: JavaStore) -> None:
    found = read(of_store(store_killed.root))
    assert "killed, or copied from a running broker" in found.text
    assert "FAIL damage" not in found.text
    assert any("abort is present" in row[0] for row in found.tables["Verification"])


def test_damage_is_named_and_what_follows_is_counted(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    line = store.of_kind("msg")[7]
    path = sorted((store.root / "commitlog").iterdir())[0]
    with path.open("r+b") as file:
        file.seek(line["phy"] + 4)
        file.write(b"\xff")
    found = read(of_store(store.root))
    assert f"FAIL damage commitlog/{path.name} byte {line['phy']}: " in found.text
    assert [row[-1] for row in found.tables["Verification"] if row[0] == "commitlog"] == ["1"]
    assert "rmq inspect salvage" in found.text
    quick = read(of_store(store.root, verify=False))
    assert "records are unreadable in 1 place" in quick.text


def reading_of(topics: int, copy: JavaStore) -> StoreReading:
    found = read_store(copy.root, silent, verify=False)  # type: ignore[arg-type]
    pattern = next(iter(found.shape.topics.values()))
    for number in range(topics):
        name = f"{HOSTILE if not number else 'topic'}-{number}"
        one = found.shape.topic(name)
        one.statistics.add_many(10, 10**9 - number, 100, [0], (NOW - 1000, NOW))
        one.bodies, one.rate = pattern.bodies, pattern.rate
    return found


def test_ten_thousand_topics_make_a_page_of_bounded_size(store_clean: JavaStore) -> None:
    found = reading_of(10_000, store_clean)
    page = html_of(store_page(found, NOW, 100))
    rows = read(page).tables["Topics"]
    assert len(rows) == 101
    assert rows[1][0].startswith("<script>alert(1)</script>&\"'\\x1b[2J")
    assert "The first 100 of 10,0" in page
    assert len(page) < 500_000


def test_a_folder_without_messages(tmp_path: Path) -> None:
    for name in ("config", "consumequeue", "commitlog"):
        (tmp_path / name).mkdir()
    (tmp_path / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
    found = read(of_store(tmp_path))
    assert "The commit log has no messages." in found.text


def test_the_axis_of_time_and_the_others() -> None:
    plot = over_time("", NOW, 3_600_000, [Series("a", [1] * 24)])
    assert plot.labels[plot.marks[0]] == "11:00"
    series = by_share({f"t{n}": [n, 0] for n in range(20)}, [1000, 1])
    assert [one.name for one in series] == ["t19", "t18", "t17", "t16", "t15", "t14", "t13", "others"]
    assert series[-1].values == [1000 - sum(range(13, 20)), 1]
