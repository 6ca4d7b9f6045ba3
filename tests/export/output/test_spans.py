"""The offsets that a file holds, counted for all rows at once."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.export.output.manifest import LastRow, QueueKey, QueueSpan, SpanTally

ROW = st.tuples(
    st.sampled_from(["a", "b", ""]),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
    st.integers(-(2**62), 2**62),
    st.sampled_from([0, 1, 4, 8, 12, 0x10]),
)
Row = tuple[str, str | None, int, int, int]
FEW = pa.dictionary(pa.int32(), pa.string())


def table_of(parts: list[list[Row]], text: pa.DataType) -> pa.Table:
    fields = {"topic": text, "broker_name": text, "queue_id": pa.int32(), "queue_offset": pa.int64()}
    more = {"sys_flag": pa.int32(), "commit_log_offset": pa.int64(), "store_size": pa.int32()}
    schema = pa.schema(fields | more)
    places = itertools.count()
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array(column, kind)
                for column, kind in zip(
                    zip(*((*row, next(places), 1) for row in rows), strict=True), schema.types, strict=True
                )
            ],
            schema=schema,
        )
        for rows in parts
        if rows
    ]
    return pa.Table.from_batches(batches, schema=schema)


@settings(deadline=None)
@given(st.lists(st.lists(ROW, max_size=6), max_size=4))
def test_any_rows(parts: list[list[Row]]) -> None:
    offsets: dict[QueueKey, list[int]] = {}
    last: dict[QueueKey, LastRow] = {}
    every = (row for rows in parts for row in rows)
    for place, (topic, broker, queue, offset, flag) in enumerate(every):
        if not flag & 4:  # prepared and rolled-back ones are in no queue
            key = topic, broker, queue
            offsets.setdefault(key, []).append(offset)
            if offset == max(offsets[key]):
                last[key] = LastRow(*key, offset, place)
    expected = [QueueSpan(*key, min(of), max(of) + 1, len(of)) for key, of in offsets.items()]
    for text in (pa.string(), FEW):
        for table in (table_of(parts, text), table_of(parts, text).unify_dictionaries()):
            for tables in ([table], [pa.Table.from_batches([one]) for one in table.to_batches()]):
                tally = SpanTally(of_store=True)
                for one in tables:
                    if one.num_rows:
                        tally.add(one)
                assert sorted(tally.spans, key=repr) == sorted(expected, key=repr)
                assert sorted(tally.last, key=repr) == sorted(last.values(), key=repr)
