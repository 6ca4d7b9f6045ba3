"""The files of delayed messages of 5.x."""

from __future__ import annotations

from pathlib import Path


def lost_timers(store: Path) -> Path | None:
    """Return which of timerlog and timerwheel is missing beside the other, if any.

    A broker of 5.3.3 makes the wheel when it starts, and the log with the first message that goes into it.
    """
    log, wheel = store / "timerlog", store / "timerwheel"
    if log.exists():
        return None if wheel.exists() else wheel
    return log if wheel.exists() and _has_data(wheel) else None


def _has_data(path: Path) -> bool:
    with path.open("rb") as file:
        return any(piece.strip(b"\0") for piece in iter(lambda: file.read(1 << 20), b""))
