"""`rmq send --transaction`: its options, what they exclude, and the checks of the broker as they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.flows.transacting import Answered, Transacting

__all__ = ["CheckOption", "Ending", "TransactionOption", "WaitOption"]

_ENDS = ("commit", "rollback", "unknown")

TransactionOption = Annotated[
    str | None,
    typer.Option(
        "--transaction",
        metavar="END",
        help="As half messages that end so: commit, rollback, or unknown (the broker will ask).",
    ),
]
CheckOption = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="ANSWER",
        help="With --transaction unknown: stay, and answer the broker's checks with commit, rollback or unknown.",
    ),
]
WaitOption = Annotated[
    float | None,
    typer.Option("--wait", metavar="SECONDS", min=0, help="With --check: stay no longer than that."),
]


@dataclass(frozen=True, slots=True)
class Ending:
    """What `--transaction`, `--check` and `--wait` say."""

    end: str | None
    check: str | None
    wait: float | None

    def verify(self, **others: object) -> None:
        """A usage error when the options do not fit each other; `others` cannot be with a transaction when they are true."""
        for option, said in (("--transaction", self.end), ("--check", self.check)):
            if said is not None and said not in _ENDS:
                raise usage_error(f"{option} {said}: commit, rollback or unknown is expected")
        if self.check is not None and self.end != "unknown":
            raise usage_error("--check goes with --transaction unknown: the broker asks only about those")
        if self.wait is not None and self.check is None:
            raise usage_error("--wait goes with --check")
        if self.check == "unknown" and self.wait is None:
            raise usage_error("--check unknown decides nothing: say how long to --wait")
        for name, given in others.items():
            if given and self.end is not None:
                raise usage_error(f"--transaction and {name} exclude each other")

    def target(self, **options: Any) -> Transacting | None:
        """What sends in transactions; None when they were not asked for. `options` are the producer's."""
        if self.end is None:
            return None
        from rmqcli.flows.transacting import OUTCOMES, Transacting

        answer = None if self.check is None else OUTCOMES[self.check]
        return Transacting(OUTCOMES[self.end], answer, **options)

    async def settle(self, target: Transacting) -> ExitCode:
        """Stays until the checks of the broker have decided what was sent, or the time is over."""
        if self.check is None:
            return ExitCode.DONE
        await target.settle(self.wait, self._told_of)
        if not target.undecided:
            return ExitCode.DONE
        warn(f"undecided after {self.wait:g} s: {many(target.undecided, 'message')}; the broker asks on")
        return ExitCode.TIMED_OUT

    def _told_of(self, answered: Answered) -> None:
        lost = "" if answered.told else " (not handed over; the broker asks again)"
        warn(f"check {answered.times} of {answered.msg_id}: {self.check}{lost}")
