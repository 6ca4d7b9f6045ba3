"""A long batch is stored in parts: its queue is on hold meanwhile, others are not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from rmqcli.broker.disk import REAL
from rmqcli.broker.errors import IllegalBatch, NotReady
from rmqcli.broker.store import MessageStore, PutStatus, StoreMessage
from rmqcli.broker.store.batches import PART_BYTES, PART_MESSAGES, Batch
from rmqcli.broker.store.store import open_store
from rmqcli.codec.batch_item import ITEM_HEAD, SMALLEST_ITEM
from rmqcli.codec.core.batch import count_items, read_items
from rmqcli.codec.core.record_writer import NO_LIMIT, QueueRun, Run
from rmqcli.codec.errors import BodyError
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import decode_batch, encode_batch
from rmqcli.codec.properties import properties_problem
from tests.broker.store.support import HOST, Clock, Heard, append_run, inline, loaded, message, small_config
from tests.seeds import times

LOG = 1 << 20


def parts_of(store: MessageStore, items: int, size: int = 1, **properties: str) -> list[Batch]:
    body = encode_batch([Message(topic="TopicA", body=b"x" * size, properties=properties)] * items)
    return batch_of(store, structs.replace(message(), body=body, properties_text=b""))


def batch_of(store: MessageStore, sent: StoreMessage) -> list[Batch]:
    steps = store.writer.prepare_batch(sent)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            parts: list[Batch] = end.value
            return parts


@pytest.mark.parametrize(
    ("items", "size", "sizes"),
    [
        (PART_MESSAGES, 1, [PART_MESSAGES]),
        (PART_MESSAGES + 1, 1, [PART_MESSAGES, 1]),
        (3, PART_BYTES // 2, [2, 1]),
        (2, 2 * PART_BYTES, [1, 1]),
    ],
)
async def test_a_part_ends_with_so_many_messages_or_bytes(
    tmp_path: Path, items: int, size: int, sizes: list[int]
) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=LOG, max_message_size=LOG)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL) as store:
        assert [len(part) for part in parts_of(store, items, size)] == sizes


def test_properties_that_are_too_long_are_refused_in_every_batch(tmp_path: Path) -> None:
    """The text of the second batch is like that of the first, which was refused."""
    with loaded(small_config(tmp_path)) as store:
        for number in range(2):
            own = b"UNIQ_KEY\x01%d\x02a\x01" % number + b"x" * 32750
            sent = structs.replace(
                message(), body=encode_item(0, b"b", own), properties_text=b"b\x01" + b"y" * 32
            )
            (part,) = batch_of(store, sent)
            assert part.refusal is not None
            assert part.refusal.status is PutStatus.PROPERTIES_SIZE_EXCEEDED


async def test_a_queue_on_hold_takes_no_other_messages(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=LOG)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL) as store:
        for queue_id in (0, 1):
            await store.when_ready(store.writer.append, message(queue_id=queue_id))
        first, second = parts_of(store, PART_MESSAGES + 1)
        async with store.holding("TopicA", 0) as hold:
            first.hold = second.hold = hold
            stored = await store.when_ready(store.writer.append_batch, first)
            with pytest.raises(NotReady) as waiting:
                store.attempt(store.writer.append, message(queue_id=0))
            assert store.attempt(append_run, store, [message(queue_id=0)]) == 0
            with pytest.raises(NotReady):
                store.attempt(store.writer.append_batch, parts_of(store, 1)[0])
            other = store.attempt(store.writer.append, message(queue_id=1))
            assert store.attempt(append_run, store, [message(queue_id=1)] * 2) == 2
            rest = await store.when_ready(store.writer.append_batch, second)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting.value.ready)
                await trio.testing.wait_all_tasks_blocked()
                assert nursery.child_tasks, "it waits for the end of the hold"
                nursery.cancel_scope.cancel()
        await waiting.value.ready()
        behind = await store.when_ready(store.writer.append, message(queue_id=0))
        assert {stored.status, rest.status, other.status, behind.status} == {PutStatus.PUT_OK}
        assert (stored.queue_offset, rest.queue_offset) == (1, 1 + PART_MESSAGES)
        assert behind.queue_offset == 2 + PART_MESSAGES


async def test_one_batch_holds_a_queue_at_a_time(tmp_path: Path) -> None:
    log: list[str] = []

    async def hold(store: MessageStore, name: str) -> None:
        async with store.holding("TopicA", 0):
            log.append(name)
            await trio.lowlevel.checkpoint()
            log.append(name)

    config = small_config(tmp_path)
    async with (
        open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL) as store,
        trio.open_nursery() as nursery,
    ):
        for name in "abc":
            nursery.start_soon(hold, store, name)
    assert log[::2] == log[1::2]
    assert sorted(log[::2]) == ["a", "b", "c"]


async def test_too_many_items_are_counted_before_any_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.store.batches.MOST_MESSAGES", 4)
    monkeypatch.setattr("rmqcli.broker.store.batches.Part", None)
    config = small_config(tmp_path)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL) as store:
        with pytest.raises(IllegalBatch, match="4 messages at most"):
            parts_of(store, 5, 100)


@pytest.mark.parametrize("body", [b"\x00", b"\x00\x00\x00\x15" + bytes(17), bytes(40), b"\xff" * 40])
def test_a_bad_item_ends_the_count(body: bytes) -> None:
    for read in (decode_batch, lambda data: count_items(data, 0, 9)):
        with pytest.raises(BodyError):
            read(body)


def test_the_count_is_that_of_the_items() -> None:
    body = encode_batch([Message.of("T", "b", keys="k")] * 3)
    assert count_items(body, 0, 9) == (3, len(body))
    assert count_items(body, 0, 2) == (2, len(body) * 2 // 3)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (b"KEYS\x01k\x02", b"KEYS\x01k\x02"),
        (b"KEYS\x01k\x02KEYS\x01l", b"KEYS\x01k\x02KEYS\x01l"),
        ("KEYS\x01\u00fc".encode(), "KEYS\x01\u00fc".encode()),
        (b"KEYS\x01\xff\x02a\x01b", "KEYS\x01\ufffd\x02a\x01b".encode()),
        (b"x\x02a\x01b", b"a\x01b"),
        (b"x", b""),
        (bytes(6), b""),
    ],
)
async def test_properties_that_do_not_parse_are_stored_as_java_reads_them(
    tmp_path: Path, sent: bytes, stored: bytes
) -> None:
    """Recovery takes a record with others for one that lost a page."""
    item = bytes(12) + bytes(4) + (1).to_bytes(4, "big") + b"x" + len(sent).to_bytes(2, "big") + sent
    body = (len(item)).to_bytes(4, "big") + item[4:]
    async with open_store(
        small_config(tmp_path), now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL
    ) as store:
        (part,) = batch_of(store, structs.replace(message(), body=body, properties_text=b""))
        assert [text for _, _, text in items_of(part)] == [stored]
        assert properties_problem(stored) is None


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 7]),
        st.sampled_from([3, 3, 3, 0, 700]),
        st.sampled_from(["", "TAGS\x01a", "TAGS\x01b\x02KEYS\x01k1 k2", "KEYS\x01k", "broken"]),
        st.sampled_from(["UNIQ_KEY\x01{:032X}", "UNIQ_KEY\x01{:032X}", "UNIQ_KEY\x01{:X}", ""]),
    ),
    min_size=1,
    max_size=90,
)


@settings(max_examples=times(15))
@given(st.lists(MESSAGES, min_size=1, max_size=2), st.sampled_from(["", "WAIT\x01true"]))
def test_the_files_of_batches_are_those_of_single_messages(
    batches: list[list[tuple[int, int, str, str]]], common: str
) -> None:
    """Log, queues and index, and what listeners hear, whatever the items have in common."""
    sizes: dict[str, int] = {"mapped_file_size_commit_log": LOG, "mapped_file_size_consume_queue": 20 * 1000}
    heard = Heard(), Heard()
    number = 0
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        roots = Path(one), Path(other)
        with (
            loaded(small_config(roots[0], **sizes), Clock()) as batched,
            loaded(small_config(roots[1], **sizes), Clock()) as single,
        ):
            for store, arrivals in zip((batched, single), heard, strict=True):
                store.add_arrival_listener(arrivals)
            for items in batches:
                body = b""
                for flag, size, text, key in items:
                    number += 1
                    own = "\x02".join(filter(None, (text, key.format(number)))).encode()
                    body += encode_item(flag, bytes([number % 256]) * size, own)
                sent = structs.replace(message(), body=body, properties_text=common.encode())
                parts = batch_of(batched, sent)
                for part in parts:
                    assert batched.writer.append_batch(part).status == PutStatus.PUT_OK
                    for item_flag, item_body, item_text in items_of(part):
                        each = structs.replace(
                            sent, flag=item_flag, body=item_body, properties_text=item_text
                        )
                        assert single.writer.append(each).status == PutStatus.PUT_OK
            for store in (batched, single):
                store.writer.late.finish()
                assert store._index is not None
                store._index.drain(may_create=True)
        written = [
            {str(path.relative_to(root)): path.read_bytes() for path in files_of(root)} for root in roots
        ]
    assert written[0].keys() - index_names(written[0]) == written[1].keys() - index_names(written[1])
    assert sorted(written[0].values()) == sorted(written[1].values())
    assert heard[0].messages == heard[1].messages


def items_of(batch: Batch) -> list[tuple[int, bytes, bytes]]:
    """Flag, body and properties of each message of a batch, as they are stored."""
    queue = QueueRun("TopicA", b"\x06TopicA", 0, 0, 0, NO_LIMIT)
    batch.store(Run(HOST, 0, 0), queue)
    items = read_items(batch.part.data[batch.part.begin : batch.part.end])
    return [(flag, body, text) for (flag, body, _), text in zip(items, queue.texts, strict=True)]


def encode_item(flag: int, body: bytes, text: bytes) -> bytes:
    total = SMALLEST_ITEM + len(body) + len(text)
    return ITEM_HEAD.pack(total, 0, 0, flag, len(body)) + body + len(text).to_bytes(2, "big") + text


def files_of(root: Path) -> list[Path]:
    folders = root / "commitlog", root / "consumequeue", root / "index"
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def index_names(files: dict[str, bytes]) -> set[str]:
    """Index files are named by the wall clock."""
    return {name for name in files if name.startswith("index")}
