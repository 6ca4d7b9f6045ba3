"""Keeps the event loop from waiting for the disk, be it for pages not in memory or for files not yet created.

While `strict` is set, code that would wait raises NotReady before it changes anything. Its `ready()` does the
work in a worker thread, and the caller tries again. Otherwise (recovery, tests) everything blocks.

Residency is queried (mincore) once a second for each `CHUNK` of a file; a cold chunk is read as a whole. The
pages of the next message are checked one by one when they may have become cold.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, TypeVar

import trio

from rmqcli.broker.errors import NotReady
from rmqcli.broker.store.segment import Mappings, Place, Segment
from rmqcli.broker.store.segment_list import SegmentList

CHUNK = 256 * 1024
KNOWN_SECONDS = 1.0
"""Seconds for which a chunk counts as resident after the kernel reported it."""

MOST_READS = 24
"""Maximum number of worker threads that read cold pages at a time, so that some of trio's 40 are left to
flush, to save a table or to create a file: readers of old messages on a slow disk would occupy all of
them."""
UNMAPPED_IN_A_TURN = 256
"""Maximum number of files that are unmapped before other tasks run: a broker may have 100,000 queues."""
KNOWN_CHUNKS = 64
"""Maximum number of chunks that `knows` examines; a longer range counts as unknown."""

InThread = Callable[..., Any]
"""A function like `trio.to_thread.run_sync`: `await in_thread(function, *arguments)`."""

Chunk = tuple[Segment, int]
T = TypeVar("T")


class Readiness:
    """The work that the disk must do before the event loop can make a call."""

    def __init__(self, in_thread: InThread, mappings: Mappings | None = None) -> None:
        self._mappings = Mappings() if mappings is None else mappings
        self.strict = False
        self.is_running = False
        """False until the store is open: nothing is strict then."""
        self._in_thread = in_thread
        self._resident: set[Chunk] = set()
        self._times: dict[Segment, int] = {}
        self.refusals: dict[Segment, OSError] = {}
        """The errors of files that cannot grow, for the requests that needed it."""
        self._reads = trio.CapacityLimiter(MOST_READS)
        self._files = trio.Lock()
        """Held while files are created or removed, which keeps the order of the calls: a name may be
        reused."""

    async def forget(self) -> None:
        """Run the service that forgets known residency and unmaps files that are no longer used."""
        while True:
            await trio.sleep(KNOWN_SECONDS)
            self._resident = set()
            self._times = {}
            self.refusals = {}
            while unmapped := self._mappings.trim(UNMAPPED_IN_A_TURN):
                for segment in unmapped:
                    chunks = range(-(-segment.size // CHUNK))
                    self._resident.difference_update([(segment, number) for number in chunks])
                await trio.lowlevel.checkpoint()

    def attempt(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function that uses the store. Raises NotReady where it would have to wait for the disk."""
        self.strict = self.is_running
        try:
            return function(*arguments)
        finally:
            self.strict = False

    async def when_ready(self, function: Callable[..., T], *arguments: object) -> T:
        """Like `attempt`, but wait for the disk and call the function again. Raises OSError if the disk
        refuses."""
        while True:
            try:
                return self.attempt(function, *arguments)
            except NotReady as error:
                # Its traceback refers to this frame: the cycle would keep the request's body, up to 4 MiB, in
                # memory until the garbage collector runs.
                missing = error.with_traceback(None)
            await missing.ready()

    # --- pages

    def knows(self, segment: Segment, position: int, length: int) -> bool:
        """Return True if these bytes are known to be in memory. This is quick: it does not query the kernel,
        and returns False for more than `KNOWN_CHUNKS` chunks.
        """
        first, last = position // CHUNK, (position + max(length, 1) - 1) // CHUNK
        resident = self._resident
        if first == last:
            return (segment, first) in resident
        return last - first < KNOWN_CHUNKS and all(
            (segment, number) in resident for number in range(first, last + 1)
        )

    def require(self, segment: Segment, position: int, length: int, limit: int | None = None) -> None:
        """Raise NotReady if reading these bytes would wait. Nothing is written from position `limit` on."""
        if self.strict:
            cold = self.cold(segment, position, length, limit)
            if cold:
                raise self.loading(cold)

    def cold(self, segment: Segment, position: int, length: int, limit: int | None = None) -> list[Chunk]:
        """Return the chunks of a range that are not resident."""
        if self.knows(segment, position, length):
            return []
        first, last = position // CHUNK, (position + max(length, 1) - 1) // CHUNK
        return [
            (segment, number)
            for number in range(first, last + 1)
            if not self._is_resident(segment, number, segment.size if limit is None else limit)
        ]

    def _is_resident(self, segment: Segment, number: int, limit: int) -> bool:
        chunk = segment, number
        if chunk in self._resident:
            return True
        start = number * CHUNK
        length = min(CHUNK, limit - start)
        if length <= 0 or segment.is_resident(start, length):
            self._resident.add(chunk)
            return True
        return False

    def loading(self, chunks: Iterable[Chunk]) -> NotReady:
        """Return the error to raise for chunks that are not resident."""
        wanted = list(dict.fromkeys(chunks))

        def load() -> None:
            for segment, number in wanted:
                start = number * CHUNK
                segment.load_pages(start, min(CHUNK, segment.size - start))

        async def ready() -> None:
            async with self._reads:
                await self._in_thread(load)
            # If the file was unmapped during the read, the next use has to map it, which blocks.
            self._resident.update(chunk for chunk in wanted if chunk[0].is_mapped)

        return NotReady(ready)

    def require_pages(self, places: Iterable[Place], done: Callable[[], None]) -> None:
        """Raise NotReady if pages for the next message are cold; call `done` once they are not."""
        cold = [(segment, position) for segment, position in places if not segment.is_resident(position, 1)]
        if not (self.strict and cold):
            done()
            return

        def load() -> None:
            for segment, position in cold:
                segment.load_pages(position, 1)

        async def ready() -> None:
            await self._in_thread(load)
            if all(segment.is_mapped for segment, _ in cold):  # otherwise the caller tries again
                done()

        raise NotReady(ready, in_order=True)

    def modified_ms(self, segments: list[Segment], segment: Segment) -> int:
        """Return the modification time in ms of one of these files. Raises NotReady if strict and not
        known."""
        if not self.strict:
            return segment.modified_ms
        known = self._times.get(segment)
        if known is not None:
            return known

        async def ready() -> None:
            times = await self._in_thread(lambda: [one.modified_ms for one in segments])
            self._times.update(zip(segments, times, strict=True))

        raise NotReady(ready)

    # --- files

    def building(self, segments: SegmentList, start: int) -> NotReady:
        """Return the error to raise for a file that the next message needs."""

        async def ready() -> None:
            await self.build(segments, start)

        return NotReady(ready, in_order=True)

    def reserving(self, segment: Segment, end: int, done: Callable[[], None]) -> NotReady:
        """Return the error to raise for blocks that a file needs up to a position. A refusal of the disk is
        kept in `refusals` for a while.
        """

        async def ready() -> None:
            try:
                await self._in_thread(segment.reserve, end)
            except OSError as error:
                self.refusals[segment] = error
            if segment.is_mapped:
                done()

        return NotReady(ready, in_order=True)

    async def build(self, segments: SegmentList, start: int) -> None:
        """Create the file that begins at `start` if it is still needed; keep a refusal of the disk in
        `segments.refused`."""
        async with self._files:
            if segments.wants(start):
                try:
                    segments.offer(await self._in_thread(segments.build, start))
                except OSError as error:
                    segments.refused = error

    @contextlib.asynccontextmanager
    async def files_kept(self) -> AsyncIterator[None]:
        """Let no worker create or remove a file inside the block."""
        async with self._files:
            yield

    async def change_files(self, change: Callable[[], None]) -> None:
        """Run a removal or creation of files in a worker thread."""
        async with self._files:
            await self._in_thread(change)
