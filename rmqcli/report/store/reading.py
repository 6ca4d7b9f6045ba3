"""Everything that a page says about a store folder. Bounded memory: the log is read once, for all topics."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rmqcli.store.read.files import data_size
from rmqcli.store.stats.overview import Overview, overview
from rmqcli.store.stats.topic_shapes import LogShape, shape_of
from rmqcli.store.verify.commit_log import workers_for
from rmqcli.store.verify.store import Steps, StoreReport, log_of, verify_store


class StoreReading(NamedTuple):
    """`verified` is None if the store was not checked."""

    path: Path
    overview: Overview
    shape: LogShape
    verified: StoreReport | None


def read_store(store: Path, steps: Steps, *, verify: bool, jobs: int | None = None) -> StoreReading:
    """Read and check a store folder. Raises FileNotFoundError if it is not one, DamagedFile for its tables."""
    verified = None
    if verify:
        with workers_for(log_of(store), jobs) as workers:
            verified = verify_store(store, steps, workers)
    log = log_of(store)
    with steps("topics", sum(map(data_size, log.files))) as advance:
        shape = shape_of(log, advance)
    return StoreReading(store, overview(store), shape, verified)
