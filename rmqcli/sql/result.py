"""The result of a statement, which comes in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from rmqcli.sql.values import rows_of


class Result:
    """The rows of a statement, which can be read once. Columns of the same name are told apart by numbers."""

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        names = _told_apart(schema.names)
        self.schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
        self.begun = False
        self._batches = batches

    def batches(self) -> Iterator[Any]:
        """Yield record batches of at most `engine.BATCH_ROWS` rows."""
        for batch in self._batches:
            self.begun = True
            yield batch.rename_columns(self.schema.names)

    def rows(self, *, lines: bool = False) -> Iterator[Sequence[Any]]:
        """Yield rows of values as they are shown: in JSON, or in tables and `lines`."""
        for batch in self.batches():
            yield from rows_of(batch, lines=lines)


Show: TypeAlias = Callable[[Result], None]


def _told_apart(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            own, number = f"{name}_{number}", number + 1
        found.append(own)
    return found
