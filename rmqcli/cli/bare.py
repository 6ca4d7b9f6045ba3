"""Groups that also take the options of one of their commands: `rmq broker --port 0` is `rmq broker run --port
0`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rmqcli.cli.command import SectionedGroup

BARE = "run"
"""The command of a line that names none."""
_HELP = frozenset({"-h", "--help"})


class BareGroup(SectionedGroup):
    """A group whose command `run` may be left out; `--help` without a command is that of the group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if _names_a_command(args, self._valued(ctx)):
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, ["--help"] if asks_for_help(args) else [BARE, *args])

    def _valued(self, ctx: Any) -> set[str]:
        command: Any = self.get_command(ctx, BARE)
        parameters = [*self.params, *command.params] if command is not None else self.params
        return {name for one in parameters if not getattr(one, "is_flag", False) for name in one.opts}


def asks_for_help(words: Sequence[str]) -> bool:
    return not _HELP.isdisjoint(words)


def _names_a_command(words: Sequence[str], valued: Collection[str]) -> bool:
    """Return True if a word is neither an option nor the value of one of `valued`."""
    left = iter(words)
    for word in left:
        if word in valued:
            next(left, None)
        elif not word.startswith("-"):
            return True
    return False
