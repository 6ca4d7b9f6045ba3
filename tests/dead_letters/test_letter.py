from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.dead_letters.journal import Journal, State
from rmqcli.dead_letters.letter import (
    DROPPED,
    REDRIVEN_FROM,
    JournalError,
    Selection,
    identity,
    ids,
    origin_topic,
    restored,
    selection,
)
from rmqcli.grammar.offset_range import OffsetRange
from tests.cli.messages import stored

LETTER = stored(
    topic="%DLQ%g",
    flag=9,
    reconsume_times=17,
    properties={
        "UNIQ_KEY": "AB01",
        "KEYS": "k1 k2",
        "TAGS": "paid",
        "shop": "berlin",
        **dict.fromkeys(sorted(DROPPED), "1"),
        "DLQ_ORIGIN_TOPIC": "",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "7f01",
    },
)


def test_a_letter_becomes_what_it_was() -> None:
    message = restored(LETTER, "orders")
    assert (message.topic, message.body, message.flag) == ("orders", b"hello", 9)
    assert message.properties == {
        "UNIQ_KEY": "AB01",
        "KEYS": "k1 k2",
        "TAGS": "paid",
        "shop": "berlin",
        REDRIVEN_FROM: "%DLQ%g broker-a 3 17",
    }


def test_a_message_without_a_unique_key_keeps_its_id() -> None:
    letter = stored(properties={})
    assert restored(letter, "t").uniq_key == letter.offset_msg_id == letter.msg_id


def test_the_topic_that_it_came_from() -> None:
    assert origin_topic(LETTER) == "orders"
    assert origin_topic(stored(properties={"DLQ_ORIGIN_TOPIC": "five", "RETRY_TOPIC": "%RETRY%g"})) == "five"
    assert origin_topic(stored(properties={})) is None


def test_ids_and_identity() -> None:
    assert {"AB01", "7F01", LETTER.offset_msg_id} <= ids(LETTER)
    assert identity(LETTER) != identity(stored(topic="%DLQ%g", store_timestamp=1))


@pytest.mark.parametrize(
    ("chosen", "accepted"),
    [
        (Selection(), True),
        (selection(["k2"], [], OffsetRange(), None), True),
        (selection(["k3"], [], OffsetRange(), None), False),
        (selection([], ["ab01"], OffsetRange(), None), True),
        (selection([], ["7F01"], OffsetRange(), None), True),
        (selection(["k1"], ["ff"], OffsetRange(), None), False),
        (selection(["k1"], [], OffsetRange(), lambda letter: letter.flag == 9), True),
        (selection([], [], OffsetRange(), lambda letter: False), False),
    ],
)
def test_selections(chosen: Selection, accepted: bool) -> None:
    assert chosen.accepts(LETTER) is accepted
    assert chosen.is_all is (chosen == Selection())


def test_a_journal_keeps_the_last_state(tmp_path: Path) -> None:
    path = tmp_path / "dlq" / "g.jsonl"
    assert Journal(path).state("a") is State.OPEN
    with Journal(path) as journal:
        journal.note("a", State.SENDING)
        journal.note("a", State.SENT)
        journal.note("b", State.SENDING)
        with pytest.raises(JournalError, match="in use"), Journal(path):
            pass
    assert [Journal(path).state(name) for name in "abc"] == [State.SENT, State.SENDING, State.OPEN]


def test_a_journal_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    path.write_bytes(b'{"letter":"a","state":"sent"}\n{"letter":"b","st')
    with Journal(path) as journal:
        assert (journal.state("a"), journal.state("b")) == (State.SENT, State.OPEN)
        journal.note("c", State.DROPPED)
    assert Journal(path).state("c") is State.DROPPED


def test_a_file_that_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    path.write_text("hello\n")
    with pytest.raises(JournalError, match="not a progress file"):
        Journal(path)
    assert path.read_text() == "hello\n"
