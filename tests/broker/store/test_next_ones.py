"""Records that are taken together equal those that the loop over the entries takes one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from broker.store import GetResult, MessageStore
from broker.store.entry_runs import MOST_AT_ONCE
from broker.store.reading import Reader
from codec.core.hashing import tags_code
from tests.broker.store.support import LOG_SIZE, loaded, message, small_config

ENDS = [0, 1, LOG_SIZE - 8, LOG_SIZE, LOG_SIZE + 1, 2 * LOG_SIZE]
NUMBERS = st.integers(-3, 3 * LOG_SIZE) | st.sampled_from(ENDS) | st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 900) | st.integers(-(2**31), 2**31 - 1)
BATCHES = st.fixed_dictionaries(
    {
        "max_transfer_count_on_message_in_memory": st.sampled_from([1, 3, 32, MOST_AT_ONCE, 100]),
        "max_transfer_bytes_on_message_in_memory": st.sampled_from([1, 700, 4000, 262144]),
        "access_message_in_memory_max_ratio": st.sampled_from([40, 40, 40, -1]),
    }
)
COUNTS = st.sampled_from([-1, 0, 1, 5, 16, 32, 63, 64, 65, 1000])


def one_by_one(get: Callable[[], GetResult]) -> GetResult:
    """Gets with the loop alone."""
    together = Reader._next_ones
    Reader._next_ones = lambda *_: None  # type: ignore[method-assign]
    try:
        return get()
    finally:
        Reader._next_ones = together  # type: ignore[method-assign]


def plain(result: GetResult) -> tuple[object, ...]:
    return (*result[:4], [bytes(view) for view in result.views], *result[5:])


def compare(store: MessageStore, queue_id: int, offset: int, count: int, tags: set[int] | None) -> None:
    accepts = None if tags is None else tags.__contains__
    found = store.get("TopicA", queue_id, offset, count, accepts_code=accepts)
    expected = one_by_one(lambda: store.get("TopicA", queue_id, offset, count, accepts_code=accepts))
    assert plain(found) == plain(expected)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 1500)), max_size=60),
    BATCHES,
    st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 40), COUNTS), max_size=8),
    st.sets(st.integers(0, 2)) | st.none(),
)
def test_of_queues_that_the_broker_wrote(
    stored: list[tuple[int, int]],
    settings: dict[str, int],
    pulls: list[tuple[int, int, int]],
    tags: set[int] | None,
) -> None:
    with tempfile.TemporaryDirectory() as folder, loaded(small_config(Path(folder), **settings)) as store:
        for number, (queue_id, size) in enumerate(stored):
            store.append(message(number, queue_id=queue_id, size=size))
        codes = None if tags is None else {tags_code(f"Tag{tag % 3}") for tag in tags}
        for queue_id, offset, count in pulls:
            compare(store, queue_id, offset, count, codes)


@given(
    st.lists(st.tuples(NUMBERS, SIZES, st.integers(-5, 5)), min_size=1, max_size=40),
    st.booleans(),
    BATCHES,
    st.lists(st.tuples(st.integers(0, 40), COUNTS), max_size=8),
    st.sets(st.integers(-5, 5)) | st.none(),
)
@example(
    [(0, 1, 0), (-2, 0, 0)],
    False,
    {
        "max_transfer_count_on_message_in_memory": 1,
        "max_transfer_bytes_on_message_in_memory": 1,
        "access_message_in_memory_max_ratio": 40,
    },
    [(0, 1)],
    None,
)
def test_of_queues_with_any_entries(
    entries: list[tuple[int, int, int]],
    in_order: bool,
    settings: dict[str, int],
    pulls: list[tuple[int, int]],
    codes: set[int] | None,
) -> None:
    with tempfile.TemporaryDirectory() as folder, loaded(small_config(Path(folder), **settings)) as store:
        for number in range(40):
            store.append(message(number, queue_id=1, size=700))
        queue = store._queues.ensure("TopicA", 0)
        for entry in sorted(entries) if in_order else entries:
            queue.append(*entry)
        for offset, count in pulls:
            compare(store, 0, offset, count, codes)


def test_records_one_after_the_other_are_one_view() -> None:
    with tempfile.TemporaryDirectory() as folder, loaded(small_config(Path(folder))) as store:
        for number, queue_id in enumerate((0, 0, 1, 1, 0, 1, 1)):
            store.append(message(number, queue_id=queue_id))
        found = store.get("TopicA", 1, 0, 32)
    assert [found.count, len(found.views)] == [4, 2]
