"""Undo files of `rmq offsets reset`.

An undo file is JSON: the old and new offsets, and the command that restores the old ones. It is written
before anything changes, to `undo/` in the user's state folder, or in the folder that RMQ_STATE_DIR names. A
queue without a committed offset has no old offset, so an undo leaves it alone.
"""

from __future__ import annotations

import os
import re
import shlex
from datetime import datetime
from pathlib import Path

import msgspec

from codec.message_queue import MessageQueue
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.client import ResetPlan, ResetTarget


class UndoQueue(msgspec.Struct, frozen=True, rename="camel"):
    """One queue, with its old and new offset."""

    broker_name: str
    queue_id: int
    old: int | None
    new: int


class UndoFile(msgspec.Struct, frozen=True, rename="camel"):
    """The content of an undo file."""

    command: str
    group: str
    topic: str
    target: str
    written: str
    queues: list[UndoQueue]


def undo_folder() -> Path:
    """Return the folder of undo files."""
    folder = os.environ.get("RMQ_STATE_DIR")
    if folder:
        return Path(folder) / "undo"
    import platformdirs

    return Path(platformdirs.user_state_dir("rmq")) / "undo"


def load_undo(path: Path) -> tuple[str, str, ResetTarget]:
    """Return group, topic and target of an undo; raise CommandError for another file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=UndoFile)
    except msgspec.DecodeError as error:
        raise CommandError(f"{path}: not an undo file: {error}", ExitCode.USAGE) from error
    old = {
        MessageQueue(found.topic, q.broker_name, q.queue_id): q.old for q in found.queues if q.old is not None
    }
    if not old:
        raise CommandError(f"{path}: the group had no committed offsets, there is nothing to restore")
    return found.group, found.topic, ResetTarget("exact", exact=old)


def write_undo(plan: ResetPlan) -> Path:
    """Write the undo file of a plan and return its path."""
    now = datetime.now().astimezone()
    name = re.sub(r"[^\w.-]", "_", f"{plan.group}-{plan.topic}-{now:%Y%m%dT%H%M%S%f}")
    path = undo_folder() / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    queues = [UndoQueue(q.queue.broker_name, q.queue.queue_id, q.old, q.new) for q in plan.queues]
    content = UndoFile(undo_command(path), plan.group, plan.topic, str(plan.target), now.isoformat(), queues)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    return path


def undo_command(path: Path) -> str:
    """Return the command that restores the offsets."""
    return f"rmq offsets reset --undo {shlex.quote(str(path))}"
