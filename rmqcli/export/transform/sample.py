"""A share of the messages, chosen by a hash of their message ids: the same ones in every export and engine.

A larger sample holds every smaller one. The hash is BLAKE2b: ids of one producer differ in a few bits only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rmqcli.grammar.values import GrammarError

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_HASH_BYTES = 8
_WHOLE = 1 << 8 * _HASH_BYTES


@dataclass(frozen=True, slots=True)
class Sample:
    """The messages whose hash is below `limit`, of 2^64; `percent` is the text."""

    percent: str
    limit: int

    def apply(self, batch: Any) -> Any:
        """Return the chosen rows of a batch."""
        import numpy as np

        from codec.scan.arrow_arrays import select

        chosen = [
            number for number, one in enumerate(batch["msg_id"].to_pylist()) if _hash(one or "") < self.limit
        ]
        return batch if len(chosen) == batch.num_rows else select(batch, np.array(chosen, dtype=np.int64))


def _hash(msg_id: str) -> int:
    return int.from_bytes(blake2b(msg_id.encode(), digest_size=_HASH_BYTES).digest())


def parse_sample(option: str, text: str) -> Sample:
    """Return the sample of a text such as `1%`. Raises GrammarError, which names the option."""
    match = _PERCENT.fullmatch(text.strip())
    share = 0.0 if match is None else float(match[1]) / 100
    if not 0 < share <= 1:
        raise GrammarError(f"{option} {text}: expected more than 0% and at most 100%, such as 1% or 0.1%")
    return Sample(text.strip(), int(share * _WHOLE))
