"""One benchmark from the topic to the document of its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from codec.codes import Perm
from codec.message_queue import MessageQueue
from rmqcli.bench.load import Load
from rmqcli.bench.pulls import fill, pulls
from rmqcli.bench.round_trips import round_trips
from rmqcli.bench.running import Tally
from rmqcli.bench.sends import sends
from rmqcli.bench.topic import Place, opened
from rmqcli.client import Admin

Kind = Callable[[Admin, Sequence[MessageQueue], Load, Tally], Awaitable[None]]
KINDS: Mapping[str, Kind] = {"send": sends, "consume": pulls, "e2e": round_trips}


async def measure(admin: Admin, kind: str, place: Place, load: Load, tally: Tally | None = None) -> Tally:
    """Carry out a benchmark of KINDS, counted in a tally; raises ClientError if it cannot begin."""
    tally, perm = tally or Tally(), Perm.READ if kind == "consume" else Perm.WRITE
    async with opened(admin, place, perm) as queues:
        if kind == "consume" and place.is_own:
            await fill(admin, queues, load)
        await KINDS[kind](admin, queues, load, tally)
    return tally


def document(kind: str, place: Place, load: Load, tally: Tally) -> dict[str, Any]:
    """Return the JSON document: times in microseconds, `elapsed` in seconds, ends of buckets included."""
    return {"bench": kind, "topic": place.topic, **load.document(), **tally.document()}
