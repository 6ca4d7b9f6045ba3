"""Comparison of the log of a slave with that of its master: it should be the beginning of that.

A master that lost the end of its log, or another one in its place, writes other records where the slave has
some already. Java's slave does not see that. Here the last record is compared with the master's at the same
offset, byte by byte, at each connection; if they differ, earlier ones are, until two are the same. What
follows them is removed, after a copy of it.
"""

from __future__ import annotations

import logging

from broker.errors import ReplicaRefused
from broker.ha.peer import LogRange, MasterPeer
from broker.store import MessageStore

_log = logging.getLogger(__name__)


async def agree(store: MessageStore, master: MasterPeer, there: LogRange) -> None:
    """Cut the log of a slave where its master has something else.

    ReplicaRefused if nothing is common, or what comes next is deleted there; BrokerError, OSError.
    """
    end = store.commit_log_max_offset
    if end == store.commit_log_min_offset:
        return
    if end < there.start:
        raise ReplicaRefused(
            f"this log ends at {end} and that of {master.address} begins at {there.start}: what is between "
            f"is deleted there. Begin with an empty store"
        )
    last = store.last_record_before(end)
    if last is None or (end <= there.end and await _is_same(store, master, last)):
        return
    common = await _common_end(store, master, min(end, there.end))
    if common is None:
        raise ReplicaRefused(
            f"this log has no record in common with that of {master.address}: it is no copy of it. "
            f"Begin with an empty store"
        )
    if common == end:
        return
    folder = await store.cut(common)
    _log.error(
        "the commit log ends at %d from now on, not at %d: %s has other records there, or none. A copy of the "
        "%d bytes that were removed is in %s",
        common,
        end,
        master.address,
        end - common,
        folder,
    )


async def _common_end(store: MessageStore, master: MasterPeer, end: int) -> int | None:
    """Return the end of the last record that both logs have, before `end`; None if there is none."""
    low, high = store.commit_log_min_offset, end + 1
    while high - low > 1:
        middle = (low + high) // 2
        place = store.last_record_before(middle)
        if place is None or await _is_same(store, master, place):
            low = middle
        else:
            high = middle
    place = store.last_record_before(low)
    return None if place is None else sum(place)


async def _is_same(store: MessageStore, master: MasterPeer, place: tuple[int, int]) -> bool:
    offset, size = place
    own = store.log_part(offset, size)
    return bytes(own) == await master.record(offset)
