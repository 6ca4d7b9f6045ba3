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
    """Show the checkpoint: the store times up to which commit log, consume queues and index are flushed.

    A broker of rmq adds the commit-log offsets up to which they are: logOffset, indexOffset.
    """
    from rmqcli.render.store_view import show_facts
    from rmqcli.render.text import local_time
    from rmqcli.store.read.tables import read_checkpoint, read_safe_point

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
    safe_point = read_safe_point(path)
    if safe_point is not None:
        for name, value in (("logOffset", safe_point.log_offset), ("indexOffset", safe_point.index_offset)):
            facts[name] = str(value), value
    show_facts(settings, facts)


def _explain_checkpoint(settings: Settings, file: Path) -> None:
    from codec.store.checkpoint import CHECKPOINT, SAFE_POINT, SAFE_POINT_AT
    from codec.store.record_explain import explain_fixed
    from rmqcli.render.inspection import show_fields

    data = file.read_bytes()
    fields = explain_fixed(CHECKPOINT, data)
    if any(data[SAFE_POINT_AT:]):
        added = explain_fixed(SAFE_POINT, data, SAFE_POINT_AT)
        fields += [field._replace(offset=SAFE_POINT_AT + field.offset) for field in added]
    show_fields(settings, file, 0, fields)
