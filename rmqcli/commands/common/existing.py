"""Refuses to create what exists already, unless an option says otherwise."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from typer import Option

from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.option_groups import OptionGroup

IfMissingOption = Annotated[
    bool, Option("--if-missing", help="Create it only on brokers that do not have it.")
]
ReplaceOption = Annotated[
    bool, Option("--replace", help="Overwrite all settings of an existing one; others get their defaults.")
]


@dataclass(frozen=True, slots=True)
class Existing(OptionGroup):
    """The options of `create` for what exists already."""

    if_missing: IfMissingOption = False
    replace: ReplaceOption = False

    def check(self) -> None:
        """Raise a usage error for both options."""
        if self.if_missing and self.replace:
            raise usage_error("--if-missing and --replace cannot be combined")

    def targets(
        self, what: str, update: str, masters: Collection[str], holders: Collection[str]
    ) -> list[str]:
        """Return the masters to create `what` on; CommandError if some have it and no option was given."""
        held = sorted(set(masters) & set(holders))
        if self.replace or not held:
            return sorted(masters)
        if not self.if_missing:
            raise CommandError(
                f"{what} exists already on {', '.join(held)}: change settings with {update}, "
                "or use --if-missing or --replace"
            )
        return sorted(set(masters) - set(held))
