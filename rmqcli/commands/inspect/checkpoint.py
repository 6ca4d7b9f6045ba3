"""`rmq inspect checkpoint`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import TableArgument, app

ExplainOption = Annotated[bool, Option("--explain", help="Show it field by field, with its bytes.")]


@command(app, "checkpoint", example="rmq inspect checkpoint ~/store")
def checkpoint(settings: Settings, path: TableArgument, explain: ExplainOption = False) -> None:
    """Show the checkpoint: the store times up to which commit log, consume queues and index are flushed."""
    from rmqcli.render.store_view import show_facts
    from rmqcli.render.text import local_time
    from rmqcli.store.read.tables import read_checkpoint

    found = read_checkpoint(path)
    if found is None:
        raise CommandError(f"{path}: no checkpoint", ExitCode.NOT_FOUND)
    if explain:
        _explain_checkpoint(settings, path / "checkpoint" if path.is_dir() else path)
        return
    names = (
        "physicMsgTimestamp",
        "logicsMsgTimestamp",
        "indexMsgTimestamp",
        "masterFlushedOffset",
        "confirmPhyOffset",
    )
    facts: dict[str, tuple[str, Any]] = {
        name: (local_time(value) or str(value) if name.endswith("Timestamp") else str(value), value)
        for name, value in zip(names, found, strict=True)
    }
    show_facts(settings, facts)


def _explain_checkpoint(settings: Settings, file: Path) -> None:
    from codec.store.checkpoint import CHECKPOINT
    from codec.store.record_explain import explain_fixed
    from rmqcli.render.inspection import show_fields

    show_fields(settings, file, 0, explain_fixed(CHECKPOINT, file.read_bytes()))
