"""The folder of a 5.3.3 broker is refused while it has what only such a broker serves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.broker.disk import REAL
from rmqcli.broker.errors import StoreUnsupported
from rmqcli.broker.store.unsupported import refuse_unsupported
from rmqcli.broker.store.values import PutStatus
from tests.broker.store.support import loaded, message, small_config
from tests.support import CONSUME_QUEUE_FILE_SIZE, INDEX_ITEMS, INDEX_SLOTS, JavaStore

Copy = Callable[[str], JavaStore]
SIZES = {
    "mapped_file_size_commit_log": None,
    "mapped_file_size_consume_queue": CONSUME_QUEUE_FILE_SIZE,
    "max_hash_slot_num": INDEX_SLOTS,
    "max_index_num": INDEX_ITEMS,
}


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_all_of_it_is_named_and_nothing_is_touched(copy_java_store: Copy) -> None:
    root = copy_java_store("store-five").root
    before = contents(root)
    with pytest.raises(StoreUnsupported) as refused, loaded(small_config(root, **SIZES)):
        pass
    assert contents(root) == before
    for text in (
        "batch consume queues of FiveBatchCQ",
        "compacted topics FiveCompact",
        "ignoreUnsupported=true",
    ):
        assert text in str(refused.value)


def test_it_starts_without_them(copy_java_store: Copy) -> None:
    root = copy_java_store("store-five").root
    with loaded(small_config(root, **SIZES, ignore_unsupported=True)) as store:
        assert store.search.max_offset("FiveZip", 0) > 0


def test_a_store_of_4x_has_none(java_store: JavaStore) -> None:
    refuse_unsupported(java_store.root, REAL)


def test_a_topic_with_batch_queues_gets_no_plain_one(copy_java_store: Copy) -> None:
    """A broker of 5.x would not start with both; messages would get offsets that the batch queue has given."""
    root = copy_java_store("store-five").root
    for _ in range(2):
        with loaded(small_config(root, **SIZES, ignore_unsupported=True, check_store_on_start=True)) as store:
            status = store.writer.append(message(0, topic="FiveBatchCQ")).status
            assert status is PutStatus.MESSAGE_ILLEGAL
            assert store.writer.append(message(0, topic="FiveZip")).status is PutStatus.PUT_OK
            assert "FiveBatchCQ" not in store.topics()
        assert not (root / "consumequeue" / "FiveBatchCQ").exists()
