"""Selects those dead letters of a group that a command is about."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from codec.message import MessageExt
from rmqcli.dead_letters.letter import ids
from rmqcli.grammar.offset_range import OffsetRange

EVERYTHING = OffsetRange()
Test = Callable[[MessageExt], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """Letters with one of the keys, one of the ids, in the range of offsets or times, that pass the test.

    What is empty selects all.
    """

    keys: frozenset[str] = frozenset()
    wanted_ids: frozenset[str] = frozenset()
    span: OffsetRange = EVERYTHING
    test: Test | None = None

    @property
    def is_all(self) -> bool:
        """True if every letter is selected."""
        return self == Selection()

    def accepts(self, letter: MessageExt) -> bool:
        """Return whether a letter of the range is selected."""
        return (
            (not self.keys or not self.keys.isdisjoint(letter.keys))
            and (not self.wanted_ids or not self.wanted_ids.isdisjoint(ids(letter)))
            and (self.test is None or self.test(letter))
        )


def selection(
    keys: Collection[str], wanted_ids: Collection[str], span: OffsetRange, test: Test | None
) -> Selection:
    return Selection(frozenset(keys), frozenset(one.upper() for one in wanted_ids), span, test)
