"""Topics of a store folder: a plot of all, a table, and a card for each of the largest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rmqcli.render.text import duration
from rmqcli.report import cells
from rmqcli.report.page import Block, Card, Cell, Heading, Section, Series, Table, Text
from rmqcli.report.times import by_share, histogram, over_time
from rmqcli.store.read.folder import StoreFolder, bytes_used
from rmqcli.store.stats.log_shape import shape_of
from rmqcli.store.stats.overview import Overview, overview
from rmqcli.store.stats.topic_shapes import LogShape, TopicShape
from rmqcli.store.verify.commit_log import workers_for
from rmqcli.store.verify.store import Steps, StoreReport, verify_store


class StoreReading(NamedTuple):
    """The data of a store folder. `verified` is None if the store was not checked."""

    path: Path
    overview: Overview
    shape: LogShape
    verified: StoreReport | None


def read_store(store: Path, steps: Steps, *, verify: bool, jobs: int | None = None) -> StoreReading:
    """Read and check a store folder. Raise FileNotFoundError if it is not one, and DamagedFile for damaged
    tables.
    """
    folder, verified = StoreFolder(store), None
    if verify:
        with workers_for(folder.log, jobs) as workers:
            verified = verify_store(folder, steps, workers)
    with steps("topics", bytes_used(folder.log.files)) as advance:
        shape = shape_of(folder.log, advance)
    return StoreReading(store, overview(folder), shape, verified)


CARDS = 8
_STORED = "size in the commit log; bodies count as they are stored, perhaps compressed"
_HEADINGS = (
    Heading("Topic"),
    Heading("Messages", number=True),
    Heading("Bytes", f"of whole records: {_STORED}", number=True),
    Heading("Rate", "messages by store time, from the first to the last of the whole log"),
    Heading("Mean body", _STORED, number=True),
    Heading("Largest", "the largest body", number=True),
    Heading(
        "Keys", "different keys; a number with ~ is estimated, with a standard error of 3 %", number=True
    ),
    Heading("Last stored"),
)


def by_size(shape: LogShape) -> list[TopicShape]:
    """Return the topics with the most bytes first."""
    return sorted(shape.topics.values(), key=lambda one: (-one.statistics.size, one.statistics.topic))


def rate_section(shape: LogShape) -> Section:
    if not shape.rate.counts:
        return Section("Rate over time", [Text("The commit log has no messages.")])
    counts = {one.statistics.topic: shape.counts_of(one.statistics.topic) for one in by_size(shape)[:50]}
    series = by_share(counts, shape.rate.counts)
    title = f"Messages by store time, in steps of {duration(shape.rate.step / 1000)}"
    highest = max(shape.rate.counts) / (shape.rate.step / 1000)
    intro = (
        f"At most {highest:,.3g} messages per second in one step."
        if highest < 100
        else (f"At most {highest:,.0f} messages per second in one step.")
    )
    return Section("Rate over time", [over_time(title, shape.rate.begin, shape.rate.step, series)], intro)


def topics_section(shape: LogShape, count: int) -> Section:
    found = by_size(shape)
    shown, left_out = cells.first(found, count, "topics", _rest(found, count))
    largest = max((one.statistics.size for one in found), default=0)
    rows = [_row(shape, one, largest) for one in shown]
    return Section("Topics", [Table(_HEADINGS, rows, left_out)], "The largest first.")


def _rest(found: Sequence[TopicShape], count: int) -> str:
    rest = found[count:]
    messages, size = sum(one.statistics.messages for one in rest), sum(one.statistics.size for one in rest)
    return f"; the others have {messages:,} messages of {cells.size(size).text}"


def _row(shape: LogShape, one: TopicShape, largest: int) -> list[Cell]:
    found = one.statistics
    return [
        cells.name(found.topic),
        cells.number(found.messages),
        cells.size(found.size, share=cells.share_of(found.size, largest)),
        Cell("", counts=shape.counts_of(found.topic)),
        cells.size(round(found.body_size / found.messages)),
        cells.size(one.largest_body),
        _keys(one),
        cells.moment(found.last_store_timestamp),
    ]


def _keys(one: TopicShape) -> Cell:
    if not one.keyed:
        return cells.NOTHING
    found = cells.number(one.keys.count)
    keyed = f"{one.keyed:,} of {one.statistics.messages:,} messages have keys"
    if one.keys.is_exact:
        return found._replace(exact=keyed)
    return found._replace(
        text=f"~{found.text}", exact=f"about {one.keys.count:,}, with a standard error of 3 %; {keyed}"
    )


def cards_section(shape: LogShape) -> Section:
    blocks: list[Block] = [_card(shape, one) for one in by_size(shape)[:CARDS]]
    return Section(
        "Largest topics", blocks, "Messages over time, and the sizes of bodies as they are stored."
    )


def _card(shape: LogShape, one: TopicShape) -> Card:
    found, rate = one.statistics, shape.rate
    facts = [
        ("messages", cells.number(found.messages)),
        ("bytes", cells.size(found.size)),
        ("queues", cells.number(len(found.queues))),
        ("keys", _keys(one)),
        ("first", cells.moment(found.first_store_timestamp)),
        ("last", cells.moment(found.last_store_timestamp)),
    ]
    counts = Series("", shape.counts_of(found.topic))
    times = over_time("Messages over time", rate.begin, rate.step, [counts], narrow=True)
    return Card(found.topic, facts, [times, histogram("Sizes of bodies", one.bodies, narrow=True)])
