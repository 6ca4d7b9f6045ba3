"""The folder of what commands remember between their runs: undo files, progress, brokers that were seen."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Return the folder that RMQ_STATE_DIR names, by default the user's state folder. It may not exist."""
    if folder := os.environ.get("RMQ_STATE_DIR"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_state_dir("rmq"))
