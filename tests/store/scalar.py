"""Records decoded one by one and then filtered, without a test in place: the oracle."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.records.reading import decode_record
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.commit_log import Place, walk_file
from rmqcli.store.read.files import mapped, naming_damage


def decoded(
    log: CommitLogFiles, wanted: OffsetRange, chosen: RecordFilter
) -> Iterator[tuple[Place, MessageExt]]:
    for file in log.files_in(wanted):
        with naming_damage(file), mapped(file) as data:
            for place, _ in walk_file(file, data):
                message = decode_record(data, place.position)
                in_range = wanted.holds_offset(place.offset) and wanted.holds_time(message.store_timestamp)
                if in_range and chosen.accepts(message):
                    yield place, message
