"""A file for each cluster and kind of name in the user's cache folder, a name a line.

It is in the folder that RMQ_CACHE_DIR names, or in the user's cache folder. The time of its last change is
its age.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from rmqcli.cli.profiles import OWNER_ONLY

KEPT = 60.0
"""Seconds that names are believed."""
KEPT_EMPTY = 10.0
"""Seconds that none are believed: a cluster that did not answer may be back soon."""


def cache_path(kind: str, cluster: str) -> Path:
    """Return the file for the names of a kind; `cluster` is any text that tells clusters apart."""
    import hashlib

    folder = os.environ.get("RMQ_CACHE_DIR")
    if not folder:
        import platformdirs

        folder = platformdirs.user_cache_dir("rmq")
    return Path(folder) / "names" / f"{kind}-{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"


def known(path: Path) -> tuple[list[str], bool]:
    """Return the names of a file, none if there is none, and whether it is young enough to be believed."""
    try:
        age = time.time() - path.stat().st_mtime
        names = path.read_text("utf-8").splitlines()
    except OSError:
        return [], False
    return names, 0 <= age < (KEPT if names else KEPT_EMPTY)


def store(path: Path, names: Sequence[str]) -> None:
    """Write the names, which other processes may read meanwhile. OSError leaves the file as it was."""
    from rmqcli.files import replace_file

    replace_file(path, "".join(f"{name}\n" for name in names).encode(), durable=False, mode=OWNER_ONLY)
