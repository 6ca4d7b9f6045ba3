"""The steps between reading rows and writing them, the same for every engine. Picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmqcli.export.transform.decoding import Decoding
from rmqcli.export.transform.sample import Sample


@dataclass(frozen=True, slots=True)
class Transform:
    """Steps, in this order; those that are None are left out."""

    sample: Sample | None = None
    decoding: Decoding | None = None

    @property
    def fields(self) -> list[Any]:
        """The Arrow fields that are added to those of every export."""
        return self.decoding.fields if self.decoding is not None else []

    def apply(self, batch: Any) -> Any:
        """Returns the rows of a batch in the schema of every export, with `fields`. Raises DecodeError."""
        for step in (self.sample, self.decoding):
            batch = batch if step is None else step.apply(batch)
        return batch


NOTHING = Transform()
