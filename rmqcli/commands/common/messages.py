"""Options of the commands that print messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.options import FormatOption
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from codec.message import MessageExt
    from rmqcli.render.bodies import Bodies

_AROUND = 4  # rows of a terminal for what is not the body, and columns for its indentation

RawOption = Annotated[
    bool, Option("--raw", help="Print bodies (or the values of --format) as they are, without escapes.")
]


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

    def renderer(self, settings: Settings) -> Callable[[MessageExt], bytes]:
        """Return the renderer of messages; raise GrammarError for options that are wrong or contradict."""
        from rmqcli.render.lines import message_renderer

        return message_renderer(settings, self.format_text, self._bodies(settings))

    def _bodies(self, settings: Settings) -> Bodies:
        from shutil import get_terminal_size

        from rmqcli.grammar.sizes import parse_size
        from rmqcli.render.bodies import Bodies

        limit = None if self.max_body is None else parse_size("--max-body", self.max_body)
        screen = None
        if settings.terminal and not self.full and limit is None:
            columns, rows = get_terminal_size()
            screen = max(20, columns - _AROUND), max(2, rows - _AROUND)
        return Bodies(self.raw, self.meta_only, limit, screen)
