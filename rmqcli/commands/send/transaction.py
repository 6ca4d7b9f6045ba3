"""The options of `rmq send --transaction`, their consistency, and the checks of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.flows.sending import Answered, Transacting

_ENDS = ("commit", "rollback", "unknown")

TransactionOption = Annotated[
    str | None,
    Option(
        "--transaction",
        metavar="END",
        help="Send half messages and end them: commit, rollback, or unknown (the broker will check).",
    ),
]
CheckOption = Annotated[
    str | None,
    Option(
        "--check",
        metavar="ANSWER",
        help="With --transaction unknown: wait, and answer the broker's checks with commit, rollback "
        "or unknown.",
    ),
]
WaitOption = Annotated[
    float | None, Option("--wait", metavar="SECONDS", min=0, help="With --check: wait at most this long.")
]


@dataclass(frozen=True, slots=True)
class Ending:
    """The values of `--transaction`, `--check` and `--wait`."""

    end: str | None
    check: str | None
    wait: float | None

    def verify(self, **others: object) -> None:
        """Raise a usage error for options that conflict, or if any of `others` is true."""
        for option, value in (("--transaction", self.end), ("--check", self.check)):
            if value is not None and value not in _ENDS:
                raise usage_error(f"{option} {value}: expected commit, rollback or unknown")
        if self.check is not None and self.end != "unknown":
            raise usage_error("--check requires --transaction unknown: brokers check only those")
        if self.wait is not None and self.check is None:
            raise usage_error("--wait requires --check")
        if self.check == "unknown" and self.wait is None:
            raise usage_error("--check unknown decides nothing: limit the time with --wait")
        for name, given in others.items():
            if given and self.end is not None:
                raise usage_error(f"--transaction and {name} cannot be combined")

    def target(self, **options: Any) -> Transacting | None:
        """Return the sender of transactions, None without `--transaction`. `options`: the producer's."""
        if self.end is None:
            return None
        from rmqcli.flows.sending import OUTCOMES, Transacting

        answer = None if self.check is None else OUTCOMES[self.check]
        return Transacting(OUTCOMES[self.end], answer, **options)

    async def settle(self, target: Transacting) -> ExitCode:
        """Wait until the checks of the broker have decided every message, or until the time limit."""
        if self.check is None:
            return ExitCode.DONE
        await target.settle(self.wait, self._on_answered)
        if not target.undecided:
            return ExitCode.DONE
        pending = many(target.undecided, "message")
        warn(f"undecided after {self.wait:g} s: {pending}; the broker continues to check")
        return ExitCode.TIMED_OUT

    def _on_answered(self, answered: Answered) -> None:
        lost = "" if answered.delivered else " (not delivered; the broker will check again)"
        warn(f"check {answered.times} of {answered.msg_id}: {self.check}{lost}")
