"""The steps between reading rows and writing them, the same for every engine. Picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmqcli.export.transform.decoding import VALUE, Decoding
from rmqcli.export.transform.masks import Masks
from rmqcli.export.transform.sample import Sample


@dataclass(frozen=True, slots=True)
class Transform:
    """Steps, in this order; those that are None are left out."""

    sample: Sample | None = None
    decoding: Decoding | None = None
    masks: Masks | None = None

    @property
    def fields(self) -> list[Any]:
        """The Arrow fields that are added to those of every export, whose own types stay. Raises MaskError."""
        added = self.decoding.fields if self.decoding is not None else []
        return added if self.masks is None else list(map(self.masks.field, added))

    @property
    def summary(self) -> dict[str, Any]:
        """The steps as the manifest has them: an export is continued with the same."""
        return {
            "sample": self.sample and self.sample.percent,
            "decode": self.decoding and self.decoding.summary,
            "masks": sorted(self.masks.given) if self.masks is not None else [],
            "mask_key": self.masks and self.masks.key_mark,
        }

    def undecoded(self, table: Any) -> int:
        """Return the number of transformed rows whose body did not decode, as far as masks let it be seen."""
        is_seen = self.decoding is not None and not (self.masks is not None and self.masks.hide_value)
        return table[VALUE].null_count if is_seen else 0

    def apply(self, batch: Any) -> Any:
        """Return the rows of a batch in the schema of every export, with `fields`. Raises DecodeError."""
        for step in (self.sample, self.decoding, self.masks):
            batch = batch if step is None else step.apply(batch)
        return batch


NOTHING = Transform()
