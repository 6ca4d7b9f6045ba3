"""A run of messages leaves what the same messages leave one by one, and ends before what it is not for."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from rmqcli.broker.store import MessageStore, PutStatus, StoreMessage
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH
from tests.broker.store.support import (
    LOG_SIZE,
    Clock,
    Heard,
    append_run,
    loaded,
    message,
    numbers,
    small_config,
)

Feed = Callable[[MessageStore, list[StoreMessage]], None]


def one_by_one(store: MessageStore, messages: list[StoreMessage]) -> None:
    for each in messages:
        store.writer.append(each)


def in_runs(store: MessageStore, messages: list[StoreMessage]) -> None:
    rest = messages
    while rest:
        taken = append_run(store, rest[:32])
        if not taken:
            store.writer.append(rest[0])
        rest = rest[max(taken, 1) :]


def some_messages(seed: int) -> list[StoreMessage]:
    """Of all kinds: several queues and topics, sizes that roll files, transactions, delays, refused ones."""
    rng = random.Random(seed)
    messages = []
    for number in range(400):
        made = message(
            number, topic=rng.choice(["A", "B"]), queue_id=rng.randrange(3), size=rng.choice([10, 100, 3000])
        )
        kind = rng.randrange(40)
        if kind == 0:
            made = structs.replace(made, sys_flag=rng.choice([4, 8, 12]))
        elif kind == 1:
            made = message(number, topic="SCHEDULE_TOPIC_XXXX", DELAY="3")
        elif kind == 2:
            made = structs.replace(made, properties_text=b"a\x01" + b"a" * MAX_PROPERTIES_LENGTH)
        elif kind == 3:
            made = structs.replace(made, topic="x" * 128)
        elif kind == 4:
            made = structs.replace(made, body=bytes(5000))
        messages.append(made)
    return messages


def left_behind(
    root: Path, feed: Feed, messages: list[StoreMessage], *, extensions: bool
) -> dict[str, bytes]:
    heard = Heard()
    config = small_config(root, max_message_size=4096, enable_consume_queue_ext=extensions)
    with loaded(config, Clock()) as store:
        store.add_arrival_listener(heard)
        feed(store, [structs.replace(each) for each in messages])
        assert store.query("A", "all", 64, 0, 1 << 62)
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    files["heard"] = repr(sorted(heard.messages, key=lambda one: one[:2])).encode()
    return files


@pytest.mark.parametrize(("seed", "extensions"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_run_leaves_the_same_bytes(tmp_path: Path, seed: int, extensions: bool) -> None:
    messages = some_messages(seed)
    apart = left_behind(tmp_path / "apart", one_by_one, messages, extensions=extensions)
    together = left_behind(tmp_path / "together", in_runs, messages, extensions=extensions)
    assert sum(name.startswith("commitlog/") for name in apart) > 3
    assert together.keys() == apart.keys()
    assert [name for name in apart if together[name] != apart[name]] == []


def test_it_takes_what_is_plain_and_no_more(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path), Clock()) as store:
        assert append_run(store, [message(0)]) == 0  # neither file nor queue is there
        store.writer.append(message(0))
        plain = [message(number) for number in range(1, 4)]
        for other in (message(9, sys_flag=4), message(9, queue_id=1), message(9, topic="Other")):
            assert append_run(store, [*plain, other, *plain]) == 3
        assert append_run(store, [message(n, size=1000) for n in range(32)]) < 16  # the file ends


def test_nothing_is_taken_when_the_store_is_not_writable(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path), Clock()) as store:
        store.writer.append(message(0))
        store.stats.set_damaged()
        assert append_run(store, [message(1)]) == 0


def test_an_entry_that_cannot_be_written_fails_its_message_and_those_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    with loaded(small_config(tmp_path), Clock()) as store:
        store.writer.append(message(0))
        store.add_arrival_listener(heard)
        queue = store._queues.ensure("TopicA", 0)
        room = queue.segments.size // 20 - queue.next_offset
        store._log.segments.segments[-1].reserve(LOG_SIZE)
        store._log.note_reserved()

        def refuse(_start: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(type(queue.segments), "append", lambda _self, start: refuse(start))
        taken = append_run(store, [message(number) for number in range(1, room + 5)])
        assert taken == room, "up to the end of the file"
        assert heard.offsets == list(range(1, room + 1))
        assert store.writer.append(message(room + 1)).status is PutStatus.CREATE_MAPEDFILE_FAILED
        assert store.writer.append(message(99)).status is PutStatus.SERVICE_NOT_AVAILABLE
        monkeypatch.undo()
    with loaded(small_config(tmp_path), Clock()) as store:
        assert numbers(store, "TopicA", 0) == list(range(room + 2))


@pytest.mark.parametrize("written", [0, 1, 50, 300])
def test_a_run_that_was_cut_off_by_a_kill_leaves_no_record(
    tmp_path: Path, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loaded(small_config(tmp_path), Clock()) as store:
        store.writer.append(message(0))
        log = store._log

        def cut_off(_log: CommitLog, run: bytes) -> bool:
            position = log._position + 4
            log._view[position : position + written] = run[4 : 4 + written]
            raise KeyboardInterrupt

        monkeypatch.setattr(CommitLog, "write", cut_off)
        with pytest.raises(KeyboardInterrupt):
            append_run(store, [message(number) for number in range(1, 4)])
        monkeypatch.undo()
    with loaded(small_config(tmp_path), Clock()) as store:
        assert numbers(store, "TopicA", 0) == [0]
        store.writer.append(message(1))
        assert numbers(store, "TopicA", 0) == [0, 1]
