"""The undo file of a reset or a clone, and the cluster whose offsets it has."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.settings import Settings
from rmqcli.client import ResetPlan, ResetTarget
from rmqcli.client.wire.addresses import name_servers
from rmqcli.codec.edited import unmarked
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.render.output import warn
from rmqcli.render.text import many
from rmqcli.state import state_folder


class Home(NamedTuple):
    """The name servers and the clusters that offsets belong to."""

    namesrv: str
    clusters: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.clusters) or 'a cluster'} at {self.namesrv}"


class UndoQueue(msgspec.Struct, frozen=True, rename="camel"):
    """One queue, with its old and new offset."""

    broker_name: str
    queue_id: int
    old: int | None
    new: int


class UndoFile(msgspec.Struct, frozen=True, rename="camel"):
    """The content of an undo file."""

    command: str
    namesrv: str
    clusters: list[str]
    group: str
    topic: str
    target: str
    written: str
    queues: list[UndoQueue]


def undo_folder() -> Path:
    """Return the folder of undo files."""
    return state_folder() / "undo"


def load_undo(path: Path, settings: Settings) -> tuple[tuple[str, str, ResetTarget], Home]:
    """Return group, topic and target of an undo, and the cluster that it belongs to.

    Raise CommandError for a file that is not an undo file, and for one of other name servers: its offsets
    would reset a group of the same name elsewhere.
    """
    try:
        found = msgspec.json.decode(unmarked(path.read_bytes()), type=UndoFile)
    except ValueError as error:  # including msgspec's
        raise CommandError(f"{path}: not an undo file: {error}", ExitCode.USAGE) from error
    home = Home(found.namesrv, tuple(found.clusters))
    if not set(name_servers(found.namesrv)) & set(name_servers(settings.namesrv)):
        raise CommandError(
            f"{path}: the offsets are those of {home}, not of the cluster at {settings.namesrv}; "
            f"use -n {shlex.quote(found.namesrv)}",
            ExitCode.USAGE,
        )
    old = {
        MessageQueue(found.topic, q.broker_name, q.queue_id): q.old for q in found.queues if q.old is not None
    }
    if not old:
        raise CommandError(f"{path}: the group had no committed offsets, there is nothing to restore")
    if left := len(found.queues) - len(old):
        warn(f"{many(left, 'queue')} had no offset before the reset: the undo leaves the offset there")
    return (found.group, found.topic, ResetTarget("exact", exact=old)), home


def write_undo(plan: ResetPlan, home: Home, settings: Settings) -> Path | None:
    """Write the undo file of a plan and return its path; None if there is nothing to restore.

    Raise CommandError if it cannot be written: without it, the change could not be undone.
    """
    queues = [UndoQueue(q.queue.broker_name, q.queue.queue_id, q.old, q.new) for q in plan.changed]
    if all(queue.old is None for queue in queues):
        return None
    now = datetime.now().astimezone()
    name = re.sub(r"[^\w.-]", "_", f"{plan.group}-{plan.topic}-{now:%Y%m%dT%H%M%S%f}")
    path = undo_folder() / f"{name}.json"
    content = UndoFile(
        command=undo_command(path, settings),
        namesrv=home.namesrv,
        clusters=list(home.clusters),
        group=plan.group,
        topic=plan.topic,
        target=str(plan.target),
        written=now.isoformat(),
        queues=queues,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    except OSError as error:
        raise CommandError(
            f"nothing was changed: the undo file {path} cannot be written: {error.strerror or error}; "
            "name a folder for it with the environment variable RMQ_STATE_DIR"
        ) from error
    return path


def undo_command(path: Path, settings: Settings) -> str:
    """Return the command that restores the offsets, wherever it is run."""
    return f"rmq offsets reset --undo {shlex.quote(str(path))} {settings.endpoint_words}"
