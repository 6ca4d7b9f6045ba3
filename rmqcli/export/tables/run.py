"""A run of an export on a table: a destination whose commit is one commit of the table.

A commit that conflicts with another writer is repeated on the new version as long as the offsets there are
those that the run began with, so other writers do not disturb it. If the offsets differ, another export has
added the same messages, and the run starts again after them. Both kinds of attempts are bounded.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn, Self

import msgspec

from rmqcli.client import ClientError, InvalidRequest, NotPermitted
from rmqcli.export.errors import OutputExists, RegistryUnreachable, TableConflict, TableError, TableMismatch
from rmqcli.export.from_topic.batches import first_error
from rmqcli.export.output.folder import Place
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import ASIDE, FileEntry, Manifest, Origin, QueueSpan
from rmqcli.export.output.parquet import TwoPlaces
from rmqcli.export.run import ExportSummary
from rmqcli.export.tables.committing import commit_patiently
from rmqcli.export.tables.naming import quarantine_of
from rmqcli.export.tables.progress import SELECTION, Batch, Progress, advanced, selection, selection_text
from rmqcli.export.tables.quarantine import Quarantine
from rmqcli.export.tables.table import Table, TableFile, TableState, added_fields
from rmqcli.export.transform.decoding import VALUE
from rmqcli.render.output import warn

RUNS = 3
"""The number of runs that an export attempts, each after the messages that another export added meanwhile."""


class _Overtaken(Exception):
    """Another export has added messages after the offsets that this run began with."""


class TableRun:
    """A context manager, and a Destination. `added` are the files of its commit, None before the commit.

    Files are removed if the run fails before its commit. Rows whose body does not decode are added to the
    quarantine after it.
    """

    def __init__(
        self,
        table: Table,
        origin: Origin,
        layout: Layout,
        *,
        resume: bool,
        quarantine: Quarantine | None = None,
    ) -> None:
        layout.check()
        self.shown = table.shown
        self.layout = table.layout(layout)
        self.added: list[FileEntry] | None = None
        self.overtaken = False
        self.prefix = f"rmq-{uuid.uuid4().hex}-"
        self.previous: Manifest | None = None
        self._table = table
        self._origin = origin
        self._resume = resume
        self._quarantine = quarantine
        self._aside = Layout()
        self._put_aside = False
        self._footers: dict[str, TableFile] = {}
        self._files: list[FileEntry] = []
        self._state: TableState | None = None
        self._may_be_committed = False

    @property
    def place(self) -> Place:
        place = self._table.place
        return place if self._quarantine is None else TwoPlaces(place, self._quarantine.place, self._aside)

    def __enter__(self) -> Self:
        self._state = state = self._table.load()
        if state is not None and not self._resume:
            raise OutputExists(f"{self.shown}: exists; add to it with --resume, or name a new table")
        self._know_columns(state)
        self._added_fields(state)
        if state is not None and state.progress is not None:
            self._require_same(state.progress)
            self._require_fields(state.progress)
            self.previous = state.progress.manifest(self._origin, self.layout)
        self._table.prepare(state, self.layout)
        if self._quarantine is not None:
            self._aside = self._quarantine.open(self.layout)
            if state and state.progress and state.progress.batch:
                self._complete(self._quarantine, state.progress.batch)
        return self

    def _know_columns(self, state: TableState | None) -> None:
        """Let the decoding of bodies begin with the type that they have in the table."""
        transform = self.layout.transform
        if state is not None and transform.decoding is not None:
            kind = state.columns.field(VALUE).type if VALUE in state.columns.names else None
            required = state.progress.required if state.progress else None
            decoding = transform.decoding.for_table(kind, required)
            self.layout = replace(self.layout, transform=replace(transform, decoding=decoding))

    def _complete(self, quarantine: Quarantine, batch: Batch) -> None:
        """Add the rows of a run that was killed between its two commits, perhaps to another quarantine."""
        if batch.table != quarantine.name:
            quarantine = quarantine_of(batch.table)
            quarantine.open(self.layout)
        quarantine.complete(batch)

    def _require_same(self, progress: Progress) -> None:
        wanted = selection(self._origin, self.layout.transform)
        for name, option in SELECTION.items():
            was, is_now = getattr(progress, name), wanted[name]
            if was != is_now and progress.queues:
                raise TableMismatch(
                    f"{self.shown}: was exported with {option} {selection_text(was)}, not {selection_text(is_now)}; "
                    "specify the same to resume, or name a new table"
                )

    def _require_fields(self, progress: Progress) -> None:
        """Raise TableMismatch if the schema of bodies has lost a field that every schema before required."""
        decoding = self.layout.transform.decoding
        gone = set(progress.required or ()).difference(decoding.paths) if decoding else ()
        if decoding and gone:
            raise TableMismatch(
                f"{self.shown}: {decoding.source} has no field {min(gone)}, which the schema before required; "
                "keep the field, make it optional for a while, or name a new table"
            )

    def _added_fields(self, state: TableState | None) -> list[Any]:
        """Return the fields that the table lacks; all fields for a new table."""
        return added_fields(state.columns if state else [], self._table.schema(self.layout), self.shown)

    @property
    def is_in_doubt(self) -> bool:
        """True from the beginning of the commit on, unless it is known to have succeeded."""
        return self._may_be_committed and self.added is None

    def measure(self, names: Iterable[str]) -> list[FileEntry]:
        from rmqcli.export.output.folder import footer_entry

        found = []
        place = self._table.place
        for name in names:
            if self._quarantine is not None and name.startswith(ASIDE):
                found += self._quarantine.measure([name])
                continue
            with place.open(name) as file:
                entry, footer = footer_entry(file, place.size(name), name)
            self._footers[name] = TableFile(entry, footer)
            found.append(entry)
        return found

    def commit(
        self,
        files: Sequence[FileEntry],
        reached: Sequence[QueueSpan] = (),
        ends: Mapping[str, int | None] = {},
    ) -> list[FileEntry]:
        """Add the files in one commit, or do nothing if there is nothing new.

        Raises TableConflict if other writers were faster every time.
        """
        aside = [file for file in files if file.path.startswith(ASIDE)]
        self._put_aside = bool(aside)
        self._files = [file for file in files if file not in aside]
        spans = [*(span for file in files for span in file.queues), *reached]
        before = self._state.progress if self._state else None
        last = [row for file in files for row in file.last]
        after = advanced(before, self.prefix, self._origin, spans, ends, self.layout.transform, last)
        batch = before.batch if before else None
        if self._quarantine is not None:
            batch = self._quarantine.batch(batch, self.prefix, aside)
            after = msgspec.structs.replace(after, batch=batch)
        for file in self._files:
            self._table.place.finish(file.path)
        if files or not after.same_offsets(before) or (self._state and self._state.is_fading):
            self._commit([self._footers[file.path] for file in self._files], after)
        self.added = self._files
        if self._quarantine is not None and aside and batch is not None:
            self._quarantine.complete(batch)
        return self.added

    def _commit(self, files: Sequence[TableFile], progress: Progress) -> None:
        def commit() -> None:
            # Set before the commit, because its reply may be lost.
            self._may_be_committed = True
            self._table.commit(self._state, files, progress, self._added_fields(self._state))

        commit_patiently(self.shown, commit, self._is_there, self._look_again)

    def _is_there(self) -> bool:
        return self._table.has_run(self.prefix, self._state)

    def _look_again(self) -> None:
        # Called only after `_is_there` has found that the last attempt left nothing.
        self._may_be_committed = False
        before, self._state = self._state, self._table.load()
        if before is None and self._state is not None and not self._resume:
            raise OutputExists(f"{self.shown}: was created meanwhile; add to it with --resume")
        now = self._state.progress if self._state else None
        if now is not None and not now.same_offsets(before.progress if before else None):
            raise _Overtaken

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._quarantine is not None and not (self._may_be_committed and self._put_aside):
            self._quarantine.drop(self.prefix)
        if kind is not None and not self._may_be_committed:
            self._table.place.drop(self.prefix)
        elif self.is_in_doubt:
            with suppress(TableError):
                self.added = self._files if self._is_there() else None
        self.overtaken = kind is _Overtaken
        return self.overtaken


def attempts(
    table: Table, origin: Origin, layout: Layout, *, resume: bool, quarantine: Quarantine | None = None
) -> Iterator[TableRun]:
    """Yield runs to try, each in a `with` block that returns or breaks at its end.

    Raises TableConflict if another export was faster than the last run.
    """
    for _ in range(RUNS):
        yield TableRun(table, origin, layout, resume=resume, quarantine=quarantine)
        warn(f"{table.shown}: another export has added to it meanwhile; reading again from where that ended")
    raise TableConflict(
        f"{table.shown}: another export was faster {RUNS} times in a row; nothing was added by this one, "
        "so run only one at a time, with --resume"
    )


_OUTAGES = (ClientError, RegistryUnreachable)
_HOPELESS = (InvalidRequest, NotPermitted)


def feed(
    add: Callable[[bool], ExportSummary],
    told: Callable[[ExportSummary], None],
    outage: Callable[[Exception], None],
    *,
    every: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> NoReturn:
    """Call `add` every `every` seconds, or at once if it took longer, and `told` with its result.

    `add` receives True when it continues after its own commit. From then on, a cluster or schema registry
    that does not respond ends nothing: `outage` is called, and the next run continues. Raises other errors of
    `add`.
    """
    goes_on = False
    while True:
        began = clock()
        try:
            told(add(goes_on))
            goes_on = True
        except Exception as error:
            reason = first_error(error)
            if not goes_on or not isinstance(reason, _OUTAGES) or isinstance(reason, _HOPELESS):
                raise
            outage(reason)
        sleep(max(0.0, began + every - clock()))
