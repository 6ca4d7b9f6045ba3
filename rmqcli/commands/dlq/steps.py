"""The steps of `rmq dlq redrive` between plan and end."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import confirm, end_partly
from rmqcli.commands.dlq.app import Access, letters
from rmqcli.dead_letters.redrive import Found, Letters, Tally
from rmqcli.render.output import Output, note, warn
from rmqcli.render.progress import progress
from rmqcli.render.text import listed, many

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.dead_letters.journal import Journal
    from rmqcli.dead_letters.letter import Selection

ELSEWHERE = "--to TOPIC sends them elsewhere"
_EXCLUDED = {
    "sending": "may have been sent before; look with rmq query TOPIC --id ID, --again sends them again",
    "sent": "left out: sent before (--again includes them)",
    "dropped": "left out: dropped before (--again includes them)",
}


@dataclass(frozen=True, slots=True)
class Redrive:
    """One redrive; `journal` is open for writing unless only the plan is shown."""

    settings: Settings
    group: str
    chosen: Selection
    access: Access
    journal: Journal
    again: bool
    to: str | None

    def plan(self) -> tuple[Found, list[str]]:
        """Return what would be sent, and the groups that read the topics."""
        return with_admin(self.settings, self._plan)

    async def _plan(self, admin: Admin) -> tuple[Found, list[str]]:
        from rmqcli.client import ClientError

        async with self._letters(admin) as reader:
            found = await reader.counted()
        groups: set[str] = set()
        for topic in found.targets:
            with suppress(ClientError):
                groups.update(await admin.topics.groups(topic, failures=dict(found.failures)))
        return found, sorted(groups)

    def _letters(self, admin: Admin) -> AbstractAsyncContextManager[Letters]:
        arguments = admin, self.group, self.chosen, self.access, self.journal
        return letters(*arguments, again=self.again, to=self.to)

    def show(self, found: Found, *, dry_run: bool) -> None:
        """Print how many letters go to which topic, and report skipped letters on standard error.

        With `--json`, only a dry run prints it: a redrive prints one document at its end.
        """
        from rmqcli.render import Column
        from rmqcli.render.table import TOPIC, objects, show_rows

        columns = [TOPIC, Column("LETTERS", "letters", number=True)]
        rows = [[topic, found.topics[topic]] for topic in found.targets]
        if self.settings.json:
            if dry_run:
                Output().json({"plan": objects(columns, rows)} | self._left_out(found))
            return
        show_rows(self.settings, columns, rows)
        Output().flush()
        if found.granted:
            brokers = listed(found.granted)
            warn(f"the dead-letter topic is write-only on {brokers}: it has read permission while this reads")
        for state, count in found.excluded.items():
            warn(f"{many(count, 'letter')} {_EXCLUDED[state]}")
        for topic, why in found.gone.items():
            warn(f"{many(found.topics[topic], 'letter')} cannot go back: {why}; {ELSEWHERE}")

    def _left_out(self, found: Found) -> dict[str, dict[str, int]]:
        return {
            "leftOut": {str(state): count for state, count in found.excluded.items()},
            "gone": {topic: found.topics[topic] for topic in sorted(found.gone)},
        }

    def agree(self, found: Found, readers: list[str], *, yes: bool) -> None:
        """Ask for confirmation; raise as `confirm` does. Raise CommandError (4) if nothing can be sent."""
        if not found.count:
            what = "can be sent back" if found.topics or found.excluded else "is selected"
            raise CommandError(f"no dead letter of group {self.group} {what}", ExitCode.NOT_FOUND)
        topics = listed(found.targets)
        question = f"send {many(found.count, 'dead letter')} of group {self.group} to {topics}?"
        confirm(self.settings, question, yes=yes, readers=readers)

    def apply(self, found: Found, rate: float | None) -> Tally:
        """Send the letters; report those sent even after Ctrl-C."""
        tally = Tally()

        async def main(admin: Admin) -> None:
            async with self._letters(admin) as reader:
                with progress(self.group, found.count) as advance:
                    await reader.redrive(found, tally, rate=rate, advance=advance)

        try:
            with_admin(self.settings, main)
        finally:
            note(f"{tally.done:,} of {many(found.count, 'dead letter')} of group {self.group} sent back")
        return tally

    def end(self, found: Found, tally: Tally) -> None:
        """Print the document of `--json`, report what was not sent, and end with its exit code."""
        if self.settings.json:
            errors = {
                name: {letter: str(error) for letter, error in table.items()}
                for name, table in (("failed", tally.failed), ("unknown", tally.unknown))
            }
            Output().json({"sent": tally.done} | errors | self._left_out(found))
        gone = {topic or "unknown topic": f"{why}; {ELSEWHERE}" for topic, why in found.gone.items()}
        unknown = {letter: f"may have been sent: {error}" for letter, error in tally.unknown.items()}
        code = ExitCode.TIMED_OUT if unknown and not tally.failed else None
        end_partly(found.failures, tally.failed, unknown, gone, done=bool(tally.done), code=code)
