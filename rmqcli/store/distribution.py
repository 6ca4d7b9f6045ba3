"""How records are spread: over sizes, over time, over keys. Memory is bounded, whatever the log's size.

Rates are counted in steps that double when there are too many; keys that are rare among more than MAX_KEYS are forgotten,
so that counts of rare keys can be too low.
"""

from __future__ import annotations

from collections import Counter

from codec.message import MessageExt

__all__ = ["Distribution"]

MAX_STEPS = 60
MAX_KEYS = 100_000


class Distribution:
    """`sizes`: power of two that a record's bytes do not reach → records. `step` in ms."""

    def __init__(self) -> None:
        self.sizes: Counter[int] = Counter()
        self.keys: Counter[str] = Counter()
        self.step = 1000
        self._steps: Counter[int] = Counter()

    def add(self, message: MessageExt) -> None:
        self.sizes[1 << message.store_size.bit_length()] += 1
        self.keys.update(message.keys)
        self._steps[message.store_timestamp // self.step] += 1
        if len(self.keys) > MAX_KEYS:
            self.keys = Counter(dict(self.keys.most_common(MAX_KEYS // 2)))
        while max(self._steps) - min(self._steps) >= MAX_STEPS:
            self._widen()

    def _widen(self) -> None:
        self.step *= 2
        wider: Counter[int] = Counter()
        for number, count in self._steps.items():
            wider[number // 2] += count
        self._steps = wider

    @property
    def begin(self) -> int:
        """Store time (ms) at which the first step begins; 0 without records."""
        return min(self._steps, default=0) * self.step

    @property
    def rates(self) -> list[int]:
        """Records of each step from `begin` on."""
        first, last = min(self._steps, default=0), max(self._steps, default=-1)
        return [self._steps[number] for number in range(first, last + 1)]
