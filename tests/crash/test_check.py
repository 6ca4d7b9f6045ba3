"""The checker sees what is wrong: each fault is planted in the image of a sound store, or in what is known."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest
import trio

from tests.crash.check import check, check_done
from tests.crash.image import Entry, Image, Record
from tests.crash.model import RETRY_PREFIX, Back, Gone, Kind, Model, Read, Sent, back_of, record_number
from tests.crash.programme import Programme, run

SEED = 3
Fault = Callable[[Model, Image], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Programme:
    programme = Programme(SEED, tmp_path_factory.mktemp("sound"))
    run(programme)
    model = programme.model  # whose clock has ended with the session
    model.span_ms, model.causes, model.forces_since = lambda _: 10**15, lambda: ("hour",), lambda _: False
    return programme


def _one(model: Model, kind: Kind = Kind.PLAIN) -> Sent:
    """A message that has to be there, and is."""
    return next(sent for sent in model.messages.values() if sent.kind is kind and sent.must and sent.there)


def _record(model: Model, image: Image, kind: Kind = Kind.PLAIN) -> Record:
    sent = _one(model, kind)
    return next(
        record
        for record in image.records
        if record_number(record) == sent.number and record.topic == sent.topic
    )


def _without(image: Image, record: Record) -> None:
    image.records.remove(record)
    image.queues[record.topic, record.queue_id].pop(record.queue_offset, None)
    for offsets in image.indexed.values():
        offsets.discard(record.offset)


def lost(model: Model, image: Image) -> None:
    sent = _one(model)
    for record in [record for record in image.records if record_number(record) == sent.number]:
        _without(image, record)


def stored_twice(model: Model, image: Image) -> None:
    record = _record(model, image)
    queue = image.queues[record.topic, record.queue_id]
    again = record._replace(offset=image.log_end, queue_offset=len(queue))
    image.records.append(again)
    queue[again.queue_offset] = queue[record.queue_offset]._replace(offset=again.offset)
    for offsets in image.indexed.values():
        offsets |= {again.offset} if record.offset in offsets else set()


def nobody_sent_it(model: Model, image: Image) -> None:
    del model.messages[record_number(_record(model, image))]


def came_back(model: Model, image: Image) -> None:
    _one(model).lost = True


def elsewhere(model: Model, image: Image) -> None:
    sent = _one(model)
    assert sent.place is not None
    sent.place = sent.place[0] + 1, sent.place[1]


def no_entry(model: Model, image: Image) -> None:
    record = _record(model, image)
    del image.queues[record.topic, record.queue_id][record.queue_offset]


def wrong_entry(model: Model, image: Image) -> None:
    record = _record(model, image)
    image.queues[record.topic, record.queue_id][record.queue_offset] = Entry(record.offset, record.size, 1)


def entry_without_record(model: Model, image: Image) -> None:
    queue = image.queues["A", 0]
    queue[max(queue) + 1] = Entry(image.log_end, 100, 0)


def entry_of_a_removed_record(model: Model, image: Image) -> None:
    queue = image.queues["A", 0]
    queue[max(queue) + 1] = Entry(image.start - 1, 100, 0)


def not_indexed(model: Model, image: Image) -> None:
    record = _record(model, image)
    for offsets in image.indexed.values():
        offsets.discard(record.offset)


def indexed_where_nothing_is(model: Model, image: Image) -> None:
    image.indexed[1] = {image.log_end}


def early(model: Model, image: Image) -> None:
    sent = _one(model, Kind.DELAYED)
    parked = next(record for record in image.records if record_number(record) == sent.number)
    copy = _record(model, image, Kind.DELAYED)
    image.records[image.records.index(copy)] = copy._replace(stored=parked.stored + 1)


def read_and_gone(model: Model, image: Image) -> None:
    model.read["A", 0, 10_000] = Read(_one(model).number, image.log_end, True)


def committed_and_gone(model: Model, image: Image) -> None:
    next(iter(model.commits.values()))[-1].offset += 1


def topic_gone(model: Model, image: Image) -> None:
    model.topics["NoSuchTopic"] = True


def topic_back(model: Model, image: Image) -> None:
    model.topics["A"] = False


def never_delivered(model: Model, image: Image) -> None:
    _without(image, _record(model, image, Kind.DELAYED))


def _at(image: Image, start: int) -> None:
    image.__dict__["start"] = start


def removed_too_early(model: Model, image: Image) -> None:
    record = _record(model, image)
    lost(model, image)
    model.span_ms = lambda _: 0
    _at(image, record.offset + 1)


def begins_late(model: Model, image: Image) -> None:
    model.causes = tuple
    _at(image, model.start + 1)


def removed_and_back(model: Model, image: Image) -> None:
    model.start = image.start + 1


def given_twice(model: Model, image: Image) -> None:
    model.messages[10**6] = replace(_one(model), number=10**6, must=False)


def _copies(model: Model, image: Image) -> tuple[Back, Record, Record]:
    """What was sent back, as it was parked and as it was delivered."""
    for delivered in image.records:
        back = back_of(delivered)
        if back is not None and delivered.topic.startswith(RETRY_PREFIX):
            parked = next(record for record in image.records if back_of(record) == back)
            return back, parked, delivered
    raise LookupError


def copy_lost(model: Model, image: Image) -> None:
    back, parked, _ = _copies(model, image)
    _without(image, parked)
    model.backs[back].must = model.backs[back].asked


def copy_that_nobody_wanted(model: Model, image: Image) -> None:
    model.backs[_copies(model, image)[0]].asked = 0


def wrong_level(model: Model, image: Image) -> None:
    model.backs[_copies(model, image)[0]].levels = {9}


def copy_early(model: Model, image: Image) -> None:
    _, parked, delivered = _copies(model, image)
    image.records[image.records.index(delivered)] = delivered._replace(stored=parked.stored + 1)


def delivered_again(model: Model, image: Image) -> None:
    back, _, delivered = _copies(model, image)
    model.messages[back.number].excused_copies = 0
    image.records.append(delivered._replace(offset=image.log_end))


def copy_never_delivered(model: Model, image: Image) -> None:
    _without(image, _copies(model, image)[2])


FAULTS: dict[Fault, str] = {
    lost: "is lost",
    stored_twice: "is stored 2 times",
    nobody_sent_it: "nobody sent",
    came_back: "came back",
    elsewhere: "is stored as",
    no_entry: "no entries for",
    wrong_entry: "code=1",
    entry_without_record: "no records for",
    entry_of_a_removed_record: "lie behind others",
    not_indexed: "does not lead to",
    indexed_where_nothing_is: "where no record is",
    early: "ms early",
    read_and_gone: "a reader got",
    committed_and_gone: "was never committed",
    topic_gone: "was acknowledged",
    topic_back: "was acknowledged",
    never_delivered: "never delivered|no record before|no entries for",
    removed_too_early: "removed too early",
    begins_late: "the log begins at",
    removed_and_back: "again, not at",
    given_twice: "was given to",
    copy_lost: "%RETRY%.* is lost",
    copy_that_nobody_wanted: "%RETRY%.* asked for 0",
    wrong_level: "waits by levels",
    copy_early: "ms early in %RETRY%",
    delivered_again: "is delivered 2 times",
    copy_never_delivered: "never delivered|no record before|no entries for",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(sound: Programme, fault: Fault) -> None:
    model, image = copy.deepcopy(sound.model), copy.deepcopy(sound.image)
    check(model, image)
    fault(model, image)
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        check(model, image)
        check_done(model, image)


@pytest.mark.parametrize(("synced", "is_expired"), [((100,), True), ((100, 20_000), False)])
def test_a_copy_that_was_not_synced_keeps_no_message(
    sound: Programme, synced: tuple[int, ...], is_expired: bool
) -> None:
    model, image = Model(), copy.deepcopy(sound.image)
    sent = model.new("A", 0, (), Kind.HALF, 0.0)
    record = image.records[0]._replace(body=b"%d:" % sent.number)
    image.records[:] = [record._replace(offset=offset) for offset in synced]
    _at(image, 0)
    for offset in (100, 20_000):
        sent.see(offset)
    model.cut(image)
    assert model.is_expired(sent, 16_384) is is_expired


@pytest.mark.parametrize(("has_entry", "gone"), [(True, Gone.NO), (False, Gone.YES)])
def test_a_recovered_store_says_what_became_of_a_deletion(
    sound: Programme, has_entry: bool, gone: Gone
) -> None:
    model, image = copy.deepcopy(sound.model), copy.deepcopy(sound.image)
    sent, record = _one(model), _record(model, image)
    sent.gone = Gone.MAYBE
    if not has_entry:
        del image.queues[record.topic, record.queue_id][record.queue_offset]
    model.settle(image, 0.0)
    assert sent.gone is gone


def test_a_seed_goes_the_same_way_each_time(tmp_path: Path) -> None:
    """Whatever another thread does meanwhile, such as a cluster that other tests share."""

    def content(name: str) -> Mapping[str, bytes]:
        programme = Programme(SEED, tmp_path / name)
        run(programme)
        return programme.image.content

    contents = [content("alone")]
    with busy_loop():
        contents.append(content("beside another"))
    first, second = contents
    differing = [path for path in first.keys() | second.keys() if first.get(path) != second.get(path)]
    assert not differing, "\n".join(
        f"{path} {_around_first_difference(first.get(path), second.get(path))}" for path in sorted(differing)
    )


@contextmanager
def busy_loop() -> Iterator[None]:
    """An event loop in another thread, with two tasks that are always ready."""
    is_over = False

    async def spin() -> None:
        while not is_over:
            await trio.lowlevel.checkpoint()

    async def two() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spin)
            nursery.start_soon(spin)

    thread = threading.Thread(target=trio.run, args=(two,))
    thread.start()
    try:
        yield
    finally:
        is_over = True
        thread.join()


def _around_first_difference(*contents: bytes | None) -> tuple[int, list[bytes]]:
    one, other = (content or b"" for content in contents)
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    position = sum(1 for _ in equal)
    return position, [content[max(0, position - 300) : position + 100] for content in (one, other)]
