"""Undo files."""

from __future__ import annotations

import os
import re
import shlex
from datetime import datetime
from pathlib import Path

import msgspec

from codec.message_queue import MessageQueue
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.client import (
    ResetPlan,
    ResetTarget,
)


class UndoQueue(msgspec.Struct, frozen=True, rename="camel"):
    """One queue: where the group was and where it was moved."""

    broker_name: str
    queue_id: int
    old: int | None
    new: int


class UndoFile(msgspec.Struct, frozen=True, rename="camel"):
    """What a reset leaves behind."""

    command: str
    group: str
    topic: str
    target: str
    written: str
    queues: list[UndoQueue]


def undo_folder() -> Path:
    """Where undo files go."""
    folder = os.environ.get("RMQ_STATE_DIR")
    if folder:
        return Path(folder) / "undo"
    import platformdirs

    return Path(platformdirs.user_state_dir("rmq")) / "undo"


def load_undo(path: Path) -> tuple[str, str, ResetTarget]:
    """Group, topic and target of going back; CommandError when the file is none of ours."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=UndoFile)
    except msgspec.DecodeError as error:
        raise CommandError(f"{path}: not an undo file: {error}", ExitCode.CORRUPT) from error
    old = {
        MessageQueue(found.topic, q.broker_name, q.queue_id): q.old for q in found.queues if q.old is not None
    }
    if not old:
        raise CommandError(f"{path}: the group had no offsets before, there is nothing to go back to")
    return found.group, found.topic, ResetTarget("exact", exact=old)


def write_undo(plan: ResetPlan) -> Path:
    """Writes the undo file of a plan and gives its path."""
    now = datetime.now().astimezone()
    name = re.sub(r"[^\w.-]", "_", f"{plan.group}-{plan.topic}-{now:%Y%m%dT%H%M%S%f}")
    path = undo_folder() / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    queues = [UndoQueue(q.queue.broker_name, q.queue.queue_id, q.old, q.new) for q in plan.queues]
    content = UndoFile(undo_command(path), plan.group, plan.topic, str(plan.target), now.isoformat(), queues)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    return path


def undo_command(path: Path) -> str:
    """What to type to go back."""
    return f"rmq offsets reset --undo {shlex.quote(str(path))}"
