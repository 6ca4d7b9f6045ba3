from __future__ import annotations

import io
import json
import os
import pty

import pytest

from rmqcli.cli.settings import Given, Settings
from rmqcli.client import BrokerSummary
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.commands.cluster.members import BROKER_COLUMNS, broker_row
from rmqcli.commands.common.lag import LAG_COLUMNS
from rmqcli.commands.dlq.show import LETTER_COLUMNS
from rmqcli.commands.send.report import SendReport
from rmqcli.flows.sending import Acknowledged
from rmqcli.render import Column, Output, show_rows
from rmqcli.render.message_rows import message_renderer, message_tsv, message_view
from rmqcli.render.output import encode_text, json_line
from rmqcli.render.progress import _terminal, progress
from rmqcli.render.table import show_table
from rmqcli.render.text import (
    age,
    duration,
    local_seconds,
    local_time,
    number_ranges,
    printable,
    short_number,
    size,
    tsv_line,
)
from tests.cli.messages import stored

COLUMNS = [Column("NAME", "name"), Column("COUNT", "count", number=True)]


def test_tsv_cells() -> None:
    assert (
        tsv_line(["a\tb", "c\\d\n", None, True, False, 5, ["x", "y"], 1.5])
        == "a\\tb\tc\\\\d\\n\t\ttrue\tfalse\t5\tx,y\t1.5"
    )


def test_rows_in_a_pipe(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    show_rows(Settings(), COLUMNS, [["a\tb", 1], ["ü", None]], empty="none")
    assert capsysbinary.readouterr().out == "a\\tb\t1\nü\t\n".encode()


def test_no_rows_in_a_pipe_are_no_lines(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    show_rows(Settings(), COLUMNS, [], empty="none")
    assert capsysbinary.readouterr().out == b""


def test_rows_as_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    show_rows(Settings(Given(json=True)), COLUMNS, [["a", 1]])
    assert json.loads(capsysbinary.readouterr().out) == [{"name": "a", "count": 1}]


def test_a_table_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_table(Settings(), COLUMNS, [["x" * 127, 12345], ["\x1b[31mred", 1]])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "12345" in out
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out


ID = "7F000001ABCD1234567890ABCDEF1234"
WIDE = [
    Column("MESSAGE ID", "id", whole=True),
    Column("TOPIC", "topic", whole=True),
    Column("NOTE", "note"),
    Column("TYPE", "type", minor=True),
    Column("COUNT", "count", number=True, minor=True),
]


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("length", [10, 60])
def test_an_id_that_begins_a_row_is_never_cut_or_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, length: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    topic = "t" * length
    show_table(Settings(), WIDE, [[ID, topic, "some words of a note", "PUSH", 12345]] * 2)
    out = capsys.readouterr().out
    assert out.count(ID) == 2
    assert topic in out
    rows = [line for line in out.splitlines() if "in all rows" not in line]
    assert max(map(len, rows)) <= columns


def test_titles_are_never_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = [
        Column("CLIENT", "client", whole=True),
        Column("SUBSCRIPTIONS", "topics"),
        Column("NOTE", "note"),
    ]
    row = ["c" * 30, "%RETRY%billing: *,orders: *", "a note of some words"]
    for columns in range(34, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        show_table(Settings(), table, [row])
        out = capsys.readouterr().out
        assert "SUBSCRIPTIONS" in out, columns
        assert max(map(len, out.splitlines())) <= max(columns, len("SUBSCRIPTIONS  ") + 30), columns


def test_minor_columns_go_and_a_row_stays_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[ID, topic, "a note", "PUSH", 98765] for topic in ("this", "that")]
    shown = {}
    for columns in (60, 59, 52, 46):
        monkeypatch.setenv("COLUMNS", str(columns))
        show_table(Settings(), WIDE, rows)
        shown[columns] = capsys.readouterr()
    assert [("98765" in said.out, "PUSH" in said.out, "note" in said.out) for said in shown.values()] == [
        (True, True, True),
        (False, True, True),
        (False, False, True),
        (False, False, True),
    ]
    assert shown[52].err == "left out because the terminal is narrow: TYPE, COUNT\n"
    assert [len(said.out.splitlines()) for said in shown.values()] == [3, 3, 3, 5]


NOW = 1_700_000_000_000
LONG_TOPIC = "orders-of-the-northern-region-2026-live1"
CLIENTS = [f"192.168.12.3{number}@12345#1234567890123" for number in range(4)]


@pytest.mark.parametrize("brokers", [["broker-a"], ["broker-a", "broker-b", "broker-c"]])
def test_the_lag_of_a_group_with_clients_takes_a_line_a_queue(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, brokers: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [
        [topic, broker, queue, 1234567, 1234600, 33, NOW + queue, CLIENTS[queue], None]
        for topic in (LONG_TOPIC, "%RETRY%billing")
        for broker in brokers
        for queue in range(4)
    ]
    show_table(Settings(), LAG_COLUMNS, rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    table = [line for line in lines[1:] if not line.startswith(("CLIENT", "TOPIC", "BROKER", "LAST"))]
    assert len(table) == len(rows)
    assert [line.split()[-1] for line in table[:4]] == ["#1", "#2", "#3", "#4"]
    for number, client in enumerate(CLIENTS, 1):
        assert f"CLIENT #{number} {client}" in lines
    assert ("BROKER broker-a in all rows" in lines) is (len(brokers) == 1)
    assert any(LONG_TOPIC in line for line in lines)


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("letters", [1, 3])
def test_a_dead_letter_takes_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, brokers: int, letters: int
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ids = [f"C0A80C22303900000000{number:012X}" for number in range(letters)]
    rows = [
        [one, LONG_TOPIC, "key-1", "TagA", 16, NOW, f"broker-{number % brokers}", number, 123, "open"]
        for number, one in enumerate(ids)
    ]
    show_table(Settings(), LETTER_COLUMNS, rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    found = [line for line in lines if line.startswith("C0A80C22")]
    assert [line.split()[0] for line in found] == ids
    assert all("open" in line for line in found)
    assert sum(LONG_TOPIC in line for line in lines) == 1


def test_columns_that_were_asked_for_are_all_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = [column._replace(minor=False) for column in WIDE]
    show_table(Settings(), columns, [[ID, "topic", "a note", "PUSH", 98765]] * 2, whole=True)
    out, err = capsys.readouterr()
    assert err == ""
    for column in WIDE:
        assert column.title in out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (86_400, "1d"), (10_000_000, "115d"), (-90, "+1m")],
)
def test_ages(seconds: int, text: str) -> None:
    assert age(NOW - seconds * 1000, NOW) == text
    assert age(0, NOW) == age(None, NOW) == ""


def test_numbers_in_little_room() -> None:
    shown = [
        0,
        0.44,
        7.0,
        12,
        99.96,
        999,
        999.6,
        1000,
        21_201.9,
        99_949,
        99_951,
        212_318,
        999_600,
        4.3e6,
        8e9,
        7e15,
    ]
    texts = " ".join(short_number(value) for value in shown)
    assert texts == "0 0.4 7 12 100 999 1.0k 1.0k 21.2k 99.9k 100k 212k 1.0M 4.3M 8.0G 7000T"
    assert short_number(None) == ""


def test_an_address_is_never_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = BrokerSummary(
        "DefaultCluster",
        "broker-a",
        0,
        "192.168.100.100:10911",
        {
            "brokerVersionDesc": "V4_9_8",
            "putTps": "3456.7 1 1",
            "getTransferedTps": "21201.9 1 1",
            "msgPutTotalTodayNow": "212318999",
            "msgPutTotalTodayMorning": "0",
            "commitLogDiskRatio": "0.5",
        },
        None,
    )
    show_table(Settings(), BROKER_COLUMNS, [broker_row(found)])
    lines = capsys.readouterr().out.splitlines()
    assert "192.168.100.100:10911" in lines[1]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["getTransferedTps", "getTransferredTps"], ids=["4.x", "5.x"])
def test_the_rate_out_has_two_spellings(name: str) -> None:
    found = BrokerSummary("C", "broker-a", 0, "a:10911", {name: "21201.9 1 1"}, None)
    keys = [column.key for column in BROKER_COLUMNS]
    assert broker_row(found)[keys.index("outTps")] == 21201.9


def test_text_for_people() -> None:
    assert printable("a\tb\nc\x1b[2J\x9b\r") == "a\tb\nc\\x1b[2J\\x9b\\x0d"
    assert [size(n) for n in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
    assert [duration(s) for s in (0.05, 3.21, 42, 61, 7265)] == [
        "0.05 s",
        "3.2 s",
        "42 s",
        "1 min 1 s",
        "2 h 1 min",
    ]
    assert [local_time(None), local_time(0), local_time(-1)] == ["", "", ""]
    assert local_time(10**17) == str(10**17)


def test_text_that_is_no_unicode() -> None:
    assert encode_text("a\udcff") == b"a\xff"
    assert encode_text("a\ud800") == rb"a\ud800"
    assert json_line({"a": "\udcff"}) == rb'{"a":"\udcff"}'


def test_output_flushes_on_a_terminal_only() -> None:
    class Stream(io.BytesIO):
        flushed = 0
        terminal = True

        def flush(self) -> None:
            self.flushed += 1

        def isatty(self) -> bool:
            return self.terminal

    stream = Stream()
    Output(stream).line("x")
    assert (stream.getvalue(), stream.flushed) == (b"x\n", 1)
    stream.terminal = False
    Output(stream).json([1])
    assert (stream.getvalue(), stream.flushed) == (b"x\n[1]\n", 1)


def test_a_message_in_a_pipe() -> None:
    line = message_tsv(stored(body=b"a\tb\n\xff\\"))
    assert line == b"broker-a\t3\t17\t1714557600456\t7F0000010001\tpaid\tk1,k2\ta\\tb\\n\\xff\\\\\n"


def test_a_message_on_a_terminal() -> None:
    plain = message_view(stored(body="hällo\n\x1b[2J".encode(), reconsume_times=2), color=False).decode()
    assert plain.startswith("broker-a/3@17  2024-05-01 ")
    assert plain.endswith("  paid [k1] [k2] reconsumed 2x\n  hällo\n  \\x1b[2J\n")
    assert message_view(stored(), color=True).startswith(b"\x1b[1mbroker-a/3@17\x1b[0m")


def test_renderers() -> None:
    assert message_renderer(Settings(), "%o")(stored()) == b"17"
    assert message_renderer(Settings(), None)(stored()) == message_tsv(stored())
    assert json.loads(message_renderer(Settings(Given(json=True)), None)(stored()))["queueOffset"] == 17


def test_no_progress_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("x", 3) as advance:
        advance(1)
    assert capsys.readouterr().err == ""


def test_line_numbers() -> None:
    assert number_ranges([3]) == "3"
    assert number_ranges([9, 3, 1, 4, 5, 11, 12]) == "1, 3-5, 9, 11-12"


def test_results_as_they_come(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    item = Acknowledged(1, "ID", MessageQueue("orders", "broker-a", 2), 5, "OFFSETID", "SEND_OK")
    SendReport(Settings(Given(json=True)), "orders").sent(item)
    assert json.loads(capsysbinary.readouterr().out) == {
        "msgId": "ID",
        "brokerName": "broker-a",
        "queueId": 2,
        "queueOffset": 5,
        "offsetMsgId": "OFFSETID",
        "status": "SEND_OK",
        "recallHandle": None,
    }
    SendReport(Settings(), "orders").sent(item)
    assert capsysbinary.readouterr().out == b"broker-a\t2\t5\tID\tSEND_OK\n"


@pytest.mark.parametrize(
    ("color", "forbidden", "is_terminal", "expected"),
    [
        (None, "", True, True),
        (None, "1", True, False),
        (None, "", False, False),
        ("always", "1", False, True),
        ("never", "", True, False),
    ],
)
def test_colors_are_for_terminals_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, color: str | None, forbidden: str, is_terminal: bool, expected: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", forbidden)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    given = Given() if color is None else Given(color=color)
    assert Settings(given).color is expected


def test_a_time_in_whole_seconds_folds_between_date_and_time() -> None:
    date, time = local_seconds(1_700_000_000_123).split(" ")
    assert (len(date), len(time)) == (10, 8)
    assert local_time(1_700_000_000_123) == f"{date} {time}.123"
    assert local_seconds(None) == local_seconds(0) == ""


def test_a_terminal_has_one_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    main, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with _terminal() as first:
            with _terminal() as second:
                assert (first, second) == (True, False)
            with progress("pull", 2) as advance:
                advance(1)
        with _terminal() as later:
            assert later
        os.set_blocking(main, False)
        with pytest.raises(BlockingIOError):
            os.read(main, 1)
    os.close(main)
