"""Options of the commands that print messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import ColumnsWhereOption, FormatOption, OptionGroup
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from rmqcli.codec.message import MessageExt
    from rmqcli.render.text import Bodies

_AROUND = 4  # rows of a terminal that the body leaves free, and columns of its indentation

RawOption = Annotated[
    bool, Option("--raw", help="Print bodies (or the values of --format) as they are, without escapes.")
]

FailEmptyOption = Annotated[
    bool, Option("--fail-empty", help="End with exit code 4 if there is no message to show.")
]


@dataclass(frozen=True, slots=True)
class Conditions(OptionGroup):
    """The conditions, besides the tag, for showing a message."""

    where: ColumnsWhereOption = None
    grep: Annotated[
        str | None,
        Option("--grep", metavar="RE", help="Select by a regular expression that the body contains."),
    ] = None

    def test(self) -> Callable[[MessageExt], bool]:
        """Return a predicate for messages. Raise InvalidInput for an invalid condition."""
        from rmqcli.flows.reading import all_of, body_test, where_condition, where_test

        found = [] if self.where is None else [where_test(where_condition(self.where))]
        return all_of(found + ([] if self.grep is None else [body_test(self.grep)]))


def note_to_person(settings: Settings, text: str) -> None:
    """Report on standard error what a long command is about to do, on a terminal or with `--verbose`."""
    from rmqcli.render.output import warn

    if sys.stderr.isatty() or settings.verbose:
        warn(text)


def fail_if_empty(printed: int, *, fail: bool, what: str) -> None:
    """Raise CommandError (4) for --fail-empty if nothing was printed; without it, note that on a terminal."""
    from rmqcli.render.output import note

    text = f"no message to show in {what}"
    if fail and not printed:
        raise CommandError(text, ExitCode.NOT_FOUND)
    if not printed and sys.stdout.isatty() and sys.stderr.isatty():
        note(text)


@dataclass(frozen=True, slots=True)
class Form(OptionGroup):
    """The form in which messages are printed."""

    format_text: FormatOption = None
    raw: RawOption = False
    full: Annotated[
        bool, Option("--full", help="Show long bodies whole on a terminal, not only a screenful.")
    ] = False
    meta_only: Annotated[bool, Option("--meta-only", help="Leave the bodies out, and show their sizes.")] = (
        False
    )
    max_body: Annotated[
        str | None,
        Option("--max-body", metavar="SIZE", help="Show at most SIZE of each body, e.g. 200 or 4K."),
    ] = None

    def renderer(self, settings: Settings, *, topic: bool = False) -> Callable[[MessageExt], bytes]:
        """Return the renderer of messages. Raise GrammarError for invalid or contradictory options."""
        from rmqcli.render.message_rows import message_renderer

        return message_renderer(settings, self.format_text, self._bodies(settings), topic=topic)

    def _bodies(self, settings: Settings) -> Bodies:
        from shutil import get_terminal_size

        from rmqcli.grammar.values import parse_size
        from rmqcli.render.text import Bodies

        limit = None if self.max_body is None else parse_size("--max-body", self.max_body)
        screen = None
        if settings.terminal and not self.full and limit is None:
            columns, rows = get_terminal_size()
            screen = max(20, columns - _AROUND), max(2, rows - _AROUND)
        return Bodies(self.raw, self.meta_only, limit, screen)
