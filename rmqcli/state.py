"""The folders of this user: the configuration, the cache, and the state that commands keep between runs (undo
files, progress, known brokers).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

NO_HOME = Path("/proc/no-home-folder")
"""The home folder of a user without one: it never exists, and nobody, not even root, can write there."""


def state_folder() -> Path:
    """Return the folder that RMQ_STATE_DIR names, by default the user's state folder. It may not exist."""
    return user_folder("state", "RMQ_STATE_DIR")


def user_folder(kind: Literal["config", "cache", "state"], variable: str) -> Path:
    """Return the folder that a variable names, by default that of the user. It may not exist."""
    if folder := os.environ.get(variable):
        return Path(folder)
    import platformdirs

    # Without HOME, an id without a user (as in a container) has no home folder: an error, or "~" in old
    # versions.
    try:
        found = Path(getattr(platformdirs, f"user_{kind}_dir")("rmq"))
    except RuntimeError:
        return NO_HOME / kind
    return found if found.is_absolute() else NO_HOME / kind
