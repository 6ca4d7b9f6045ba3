"""The profiles of the topics in a commit log.

One pass over the log in bounded memory: a topic takes at most about 30 KiB. The pass does not end at damage:
it continues at the next whole record.
"""

from __future__ import annotations

from collections.abc import Callable

from rmqcli.codec.core.record_tests import RecordTest
from rmqcli.codec.core.tally import Tally
from rmqcli.codec.core.walk import UNWRITTEN, Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.store.read.commit_log import CommitLogFiles, next_record, require_zeros
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.log_records import STEP
from rmqcli.store.stats.topic_shapes import LogShape

Progress = Callable[[int], None]


def shape_of(log: CommitLogFiles, progress: Progress = lambda size: None) -> LogShape:
    """Read a log once. `progress` receives bytes."""
    shape = LogShape()
    for file in log.files:
        with mapped(file) as data:
            _add_file(file, data, shape, progress)
    return shape


def _add_file(file: NamedFile, data: memoryview, shape: LogShape, progress: Progress) -> None:
    position: int | None = 0
    while position is not None:
        begin, following = position, None
        walk = Walk(data, -1 if file.base is None else file.base, begin)
        try:
            _add_records(walk, shape)
            if walk.ending == UNWRITTEN:
                require_zeros(file, data, walk.position)
        except CorruptionError:
            shape.skipped += 1
            following = next_record(file, data, walk.position + 1)
        progress((following or len(data)) - begin)
        position = following


def _add_records(walk: Walk, shape: LogShape) -> None:
    while not walk.is_over:
        tally = Tally(RecordTest())
        try:
            tally.add_all(walk, STEP)
        finally:
            shape.add_tally(tally)
