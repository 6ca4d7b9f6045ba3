"""Copies between two clusters in memory, on the virtual clock: what arrives, in which order, and how often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from rmqcli.client import Admin, ClientError
from rmqcli.copying import copier as module
from rmqcli.copying.errors import CopyError, ProgressError, QueuesDiffer
from rmqcli.copying.marks import COPIED_FROM, mark_of
from rmqcli.copying.progress import Job, Progress
from tests.copying.conftest import COUNT, Pair, Script


def total(progress: Progress, name: str) -> int:
    return sum(getattr(one, name) for one in progress.state.sources.values())


async def test_queue_to_queue(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill(shop="berlin")
    copier, progress = await pair.copy()
    assert await pair.copies() == await pair.originals()
    before, after = await pair.read(pair.source, "orders"), await pair.read(pair.target, "copies")
    for number, messages in before.items():
        for one, other in zip(messages, after[number], strict=True):
            assert (other.msg_id, other.keys, other.tags, other.flag) == (
                one.msg_id,
                one.keys,
                one.tags,
                one.flag,
            )
            assert [other.properties[name] for name in ("n", "shop")] == [one.properties["n"], "berlin"]
            times = str(one.born_timestamp), str(one.store_timestamp)
            names = "ORIGINAL_BORN_TIMESTAMP", "ORIGINAL_STORE_TIMESTAMP"
            assert tuple(other.properties[name] for name in names) == times
            mark = mark_of(other)
            assert mark is not None and (mark.queue, mark.offset) == (one.queue, one.queue_offset)
    assert (copier.sent, copier.found, copier.stopped, total(progress, "copied")) == (COUNT, 0, {}, COUNT)
    (landing,) = next(iter(progress.state.sources.values())).targets
    assert (landing.first, landing.last, landing.messages) == (0, landing.messages - 1, landing.messages)


async def test_what_is_new_follows(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill()
    await pair.copy()
    await pair.fill(20)
    copier, progress = await pair.copy(resume=True)
    assert (copier.sent, copier.found) == (20, 0)
    assert await pair.copies() == await pair.originals()
    assert total(progress, "copied") == COUNT + 20


async def test_a_filter_looks_at_more_than_a_pull_returns(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill(400)
    _, progress = await pair.copy(expression="odd")
    originals = [one for some in (await pair.read(pair.source, "orders")).values() for one in some]
    wanted = {one.body for one in originals if one.tags == "odd"}
    copies = [body for some in (await pair.copies()).values() for body in some]
    assert len(copies) == len(wanted) and set(copies) == wanted
    assert (total(progress, "copied"), total(progress, "filtered")) == (len(wanted), 400 - len(wanted))


async def test_equal_keys_meet_in_their_order(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill()
    await pair.copy(job=Job(pair.source.namesrv, "orders", "target:9876", "copies", "hash"))
    places: dict[str, set[int]] = defaultdict(set)
    order: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, messages in (await pair.read(pair.target, "copies")).items():
        for message in messages:
            mark = mark_of(message)
            assert mark is not None
            places[message.keys[0]].add(number)
            order[message.keys[0], mark.queue.queue_id].append(mark.offset)
    assert len(places) == 7 and all(len(found) == 1 for found in places.values())
    assert len({next(iter(found)) for found in places.values()}) > 1
    assert all(offsets == sorted(offsets) for offsets in order.values())
    assert sum(map(len, order.values())) == COUNT


async def test_any_state_of_the_file_continues_without_a_second_copy(
    autojump_clock: MockClock, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves the file as it was some time before: all that was sent since is found."""
    await pair.fill()
    saved: list[bytes] = []
    save = Progress.save

    def kept(progress: Progress, *, clean: bool = False) -> None:
        save(progress, clean=clean)
        saved.append(pair.path.read_bytes())

    monkeypatch.setattr(Progress, "save", kept)
    await pair.copy(rate=12.0)
    assert len(saved) > 4
    files = [saved[0], saved[2], saved[-2]]
    for content in files:
        pair.path.write_bytes(content)
        copier, progress = await pair.copy(resume=True)
        assert copier.sent == 0, content
        assert (total(progress, "copied"), total(progress, "twice")) == (COUNT, 0)
    assert await pair.copies() == await pair.originals()


async def test_part_of_it_was_sent(autojump_clock: MockClock, pair: Pair, script: Script) -> None:
    """A run that is cut off in its middle sends the rest only."""
    await pair.fill()
    with trio.move_on_after(2.0):
        await pair.copy(rate=12.0)
    at = sum(map(len, (await pair.copies()).values()))
    assert 0 < at < COUNT
    # As after a kill: nothing of what the end of the run wrote.
    text = pair.path.read_text().replace('"clean": true', '"clean": false')
    pair.path.write_text(text)
    copier, progress = await pair.copy(resume=True)
    assert (copier.sent, total(progress, "copied")) == (COUNT - at, COUNT)
    assert await pair.copies() == await pair.originals()


async def test_a_send_without_reply_is_found(autojump_clock: MockClock, pair: Pair, script: Script) -> None:
    """The broker stores it after the sender has given up."""
    await pair.fill()
    script.delays = [3.5]
    copier, progress = await pair.copy()
    assert 0 < copier.found < COUNT == copier.sent + copier.found
    assert await pair.copies() == await pair.originals()
    assert total(progress, "twice") == 0


async def test_a_lost_send_is_repeated(autojump_clock: MockClock, pair: Pair, script: Script) -> None:
    await pair.fill()
    script.lost = 3
    copier, progress = await pair.copy()
    assert (copier.sent, copier.found, total(progress, "twice")) == (COUNT, 0, 0)
    assert await pair.copies() == await pair.originals()


async def test_a_late_request_is_counted(autojump_clock: MockClock, pair: Pair, script: Script) -> None:
    """A request that the broker carries out after the message was sent again."""
    await pair.fill()
    script.lost = 1

    async def late() -> None:
        await script.losing.wait()
        await trio.sleep(6)
        async with Admin(**pair.target.client()) as admin:
            (request,) = script.kept
            await admin.instance.pool.request(pair.target.broker_address, request, 3)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(late)
        _, progress = await pair.copy(rate=4.0)
    found = [body for messages in (await pair.copies()).values() for body in messages]
    assert len(found) > len(set(found)) == COUNT
    assert total(progress, "twice") == len(found) - COUNT
    # Counted once: the next run begins without a doubt.
    _, progress = await pair.copy(resume=True)
    assert total(progress, "twice") == len(found) - COUNT


async def test_a_refused_message_stops_its_queue_only(
    autojump_clock: MockClock, pair: Pair, script: Script
) -> None:
    await pair.fill()
    script.refused = b"body 37"
    copier, progress = await pair.copy()
    ((queue, error),) = copier.stopped.items()
    assert "MESSAGE_ILLEGAL" in str(error)
    originals, copies = await pair.originals(), await pair.copies()
    place = originals[queue.queue_id].index(b"body 37")
    assert copies == originals | {queue.queue_id: originals[queue.queue_id][:place]}
    assert progress.state.sources[queue].next == place == progress.state.sources[queue].copied
    script.refused = None
    copier, progress = await pair.copy(resume=True)
    assert (copier.stopped, total(progress, "copied")) == ({}, COUNT)
    assert await pair.copies() == originals


async def test_a_broker_that_is_away_too_long(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill(60)

    async def cut(seconds: float) -> None:
        await trio.sleep(0.5)
        pair.target.cut(pair.target.broker_address, seconds)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cut, 5.0)
        copier, _ = await pair.copy(rate=40.0)
    assert copier.stopped == {}
    assert await pair.copies() == await pair.originals()
    await pair.fill(20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cut, 2 * module.PATIENCE_S)
        copier, _ = await pair.copy(resume=True, rate=10.0)
    assert copier.stopped and all(isinstance(error, ClientError) for error in copier.stopped.values())
    await trio.sleep(60)
    copier, progress = await pair.copy(resume=True)
    assert await pair.copies() == await pair.originals()
    assert total(progress, "copied") == 80


async def test_a_followed_topic(autojump_clock: MockClock, pair: Pair) -> None:
    """New messages, a broker that is away for a minute, and new queues."""
    await pair.fill()
    async with trio.open_nursery() as nursery:

        async def change() -> None:
            await trio.sleep(5)
            await pair.fill(40)
            pair.target.cut(pair.target.broker_address, 20)
            await pair.fill(40)
            await trio.sleep(25)
            for cluster, topic in ((pair.target, "copies"), (pair.source, "orders")):
                async with Admin(**cluster.client()) as admin:
                    await admin.topics.create(topic, read_queues=5, write_queues=5)
            await pair.fill(40)

        nursery.start_soon(change)
        _, progress = await pair.copy(follow=True, idle=70.0)
    assert await pair.copies() == await pair.originals()
    assert len(progress.state.sources) == 5
    assert total(progress, "copied") == COUNT + 120
    assert [line for line in pair.warnings if "lost" in line or "back" in line]


async def test_tags_and_deleted_messages_are_counted(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill()
    _, progress = await pair.copy(expression="odd")
    odd = {b"body %d" % number for number in range(COUNT) if number // 4 % 2}
    assert (total(progress, "copied"), total(progress, "filtered")) == (len(odd), COUNT - len(odd))
    assert {body for messages in (await pair.copies()).values() for body in messages} == odd


async def test_a_rate_is_kept(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill(61)
    begin = trio.current_time()
    await pair.copy(rate=5.0)
    assert 11 <= trio.current_time() - begin <= 14


async def test_a_dry_run_sends_nothing(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill()
    copier, progress = await pair.copy(dry_run=True)
    assert (copier.sent, total(progress, "copied"), await pair.copies()) == (0, COUNT, {})
    assert not pair.path.exists()


async def test_a_topic_that_was_created_again(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill()
    await pair.copy()
    async with Admin(**pair.source.client()) as admin:
        await admin.topics.delete("orders")
        await admin.topics.create("orders", read_queues=4, write_queues=4)
    await pair.fill(8)
    copier, _ = await pair.copy(resume=True)
    assert {str(error).partition(":")[0] for error in copier.stopped.values()} == {
        "the queue ends at 2, before offset 15"
    }


async def test_numbers_of_queues(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill(4)
    async with Admin(**pair.target.client()) as admin:
        await admin.topics.create("copies", read_queues=2, write_queues=2)
    with pytest.raises(
        QueuesDiffer,
        match="topic orders has 4 queues, topic copies 2 queues: create it with 4, or use --queues hash",
    ):
        await pair.copy()


async def test_a_file_has_one_copy_at_a_time(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill(4)
    await pair.copy()
    with pytest.raises(ProgressError, match="continue with --resume"):
        Progress(pair.path, pair.job, resume=False)
    with pytest.raises(ProgressError, match="is of a copy with tag \\*, not odd"):
        Progress(
            pair.path, Job(pair.source.namesrv, "orders", "target", "copies", "keep", tag="odd"), resume=True
        )
    with Progress(pair.path, pair.job, resume=True) as one:
        with pytest.raises(ProgressError, match="is in use"), Progress(pair.path, pair.job, resume=True):
            pass
        one.save()
        with pytest.raises(ProgressError, match="is in use"), Progress(pair.path, pair.job, resume=True):
            pass
    with Progress(pair.path, pair.job, resume=True):
        pass
    pair.path.write_text("{}")
    with pytest.raises(ProgressError, match="not the progress file of a copy"):
        Progress(pair.path, pair.job, resume=True)


def test_errors_are_ours() -> None:
    errors: Sequence[type[Exception]] = (ProgressError, QueuesDiffer)
    assert all(issubclass(error, CopyError) for error in errors)
    assert COPIED_FROM == "COPIED_FROM"
