"""Readers of a store that take all records, entries and items one by one, by the general rules: the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rmqcli.codec.core.dispatch import EntryRun
from rmqcli.codec.core.walk import Walk
from rmqcli.store.read import sequences
from rmqcli.store.repair import rebuild, salvage, salvage_order
from rmqcli.store.verify import commit_log, consume_queues
from rmqcli.store.verify import store as verify_store


class _OneByOne:
    """Stands for `rmqcli.codec.core.dispatch.Dispatch`, and leaves every record to the rules."""

    def __init__(self, derives: bool = True, apart: object = ()) -> None:
        pass

    def add_all(self, walk: Walk, most: int = 0) -> bool:
        return not walk.next()

    def take(self) -> tuple[list[EntryRun], bytes]:
        return [], b""


@contextmanager
def one_by_one(enabled: bool = True) -> Iterator[None]:
    """Within the block nothing is read many records at once, and nothing is known to agree."""
    with pytest.MonkeyPatch.context() as patch:
        if enabled:
            for module in (sequences, rebuild, salvage, salvage_order, commit_log, consume_queues):
                patch.setattr(module, "Dispatch", _OneByOne)
            patch.setattr(verify_store, "_agreement", lambda folder: None)
        yield
