"""The processing between reading rows and writing them, the same for every engine. It can be pickled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rmqcli.export.transform.decoding import REASON, VALUE, VALUE_ERROR, Decoding
from rmqcli.export.transform.masking import Masks
from rmqcli.grammar.values import GrammarError

# A share of the messages, chosen by a hash of their message ids: the same ones in every export and engine.
#
# A larger sample holds every smaller one. The hash is BLAKE2b: ids of one producer differ in a few bits only.

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_HASH_BYTES = 8
_WHOLE = 1 << 8 * _HASH_BYTES


@dataclass(frozen=True, slots=True)
class Sample:
    """The messages whose hash is below `limit`, of 2^64; `percent` is the option as given."""

    percent: str
    limit: int

    def apply(self, batch: Any) -> Any:
        """Return the chosen rows of a batch."""
        import numpy as np

        from rmqcli.codec.scan.arrow_arrays import select

        chosen = [
            number for number, one in enumerate(batch["msg_id"].to_pylist()) if _hash(one or "") < self.limit
        ]
        return batch if len(chosen) == batch.num_rows else select(batch, np.array(chosen, dtype=np.int64))


def _hash(msg_id: str) -> int:
    return int.from_bytes(blake2b(msg_id.encode(), digest_size=_HASH_BYTES).digest())


def parse_sample(option: str, text: str) -> Sample:
    """Return the sample for a string such as `1%`. Raises GrammarError, which names the option."""
    match = _PERCENT.fullmatch(text.strip())
    share = 0.0 if match is None else float(match[1]) / 100
    if not 0 < share <= 1:
        raise GrammarError(f"{option} {text}: expected more than 0% and at most 100%, such as 1% or 0.1%")
    return Sample(text.strip(), int(share * _WHOLE))


@dataclass(frozen=True, slots=True)
class Transform:
    """Sampling, decoding and masking, in this order; those that are None are skipped.

    `has_reasons`: the rows are those that `sorted_out` has set aside.
    """

    sample: Sample | None = None
    decoding: Decoding | None = None
    masks: Masks | None = None
    has_reasons: bool = False

    @property
    def fields(self) -> list[Any]:
        """The Arrow fields added to those of every export, whose types do not change. Raises MaskError."""
        if self.has_reasons:
            import pyarrow as pa

            return [pa.field(REASON, pa.string())]
        added = self.decoding.fields if self.decoding is not None else []
        return added if self.masks is None else list(map(self.masks.field, added))

    @property
    def summary(self) -> dict[str, Any]:
        """The manifest's description of the transform, which must be the same when an export is continued."""
        return {
            "sample": self.sample and self.sample.percent,
            "decode": self.decoding and self.decoding.summary,
            "masks": sorted(self.masks.given) if self.masks is not None else [],
            "mask_key": self.masks and self.masks.key_mark,
        }

    @property
    def required(self) -> frozenset[str] | None:
        """The fields of `value` that the schema requires; None without one."""
        return None if self.decoding is None else self.decoding.required

    def undecoded(self, table: Any) -> int:
        """Return the number of transformed rows whose body did not decode, if masks do not hide it."""
        if self.decoding is None or (self.masks is not None and self.masks.hide_value):
            return 0
        return int(table[VALUE].null_count if VALUE in table.column_names else table.num_rows)

    def apply(self, batch: Any) -> Any:
        """Return the rows of a batch in the schema of every export, with `fields`. Raises DecodeError."""
        for step in (self.sample, self.decoding, self.masks):
            batch = batch if step is None else step.apply(batch)
        return batch

    def sorted_out(self, batch: Any) -> tuple[Any, Any]:
        """Return transformed rows, and those whose body does not decode, masked, with the column `reason`."""
        import numpy as np

        from rmqcli.codec.scan.arrow_arrays import select

        for step in (self.sample, self.decoding):
            batch = batch if step is None else step.apply(batch)
        is_wrong = batch[VALUE_ERROR].is_valid().to_numpy(zero_copy_only=False)
        aside = select(batch, np.flatnonzero(is_wrong))
        aside = aside.drop_columns([name for name in aside.schema.names if name == VALUE])
        kept = select(batch, np.flatnonzero(~is_wrong)) if aside.num_rows else batch
        kept = kept.drop_columns([VALUE_ERROR])
        if self.masks is not None:
            kept, aside = map(self.masks.apply, (kept, aside))
        names = [REASON if name == VALUE_ERROR else name for name in aside.schema.names]
        return kept, aside.rename_columns(names)


NOTHING = Transform()
