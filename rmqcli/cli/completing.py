"""Names for shells to complete: `rmq __complete KIND WORD...` prints those of a kind, one per line.

The words are those of the command line before the one to complete: its `-n`, `--profile`, `--map` and
`--tls…` choose the cluster. Nothing here is ever an error or waits for a server: the names come from the
cache, and if they are old, another process requests new ones (`rmq __complete --ask KIND WORD...`) for the
next Tab.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcli.cli.profiles import OWNER_ONLY
from rmqcli.state import user_folder

if TYPE_CHECKING:
    from rmqcli.cli.settings import Settings
    from rmqcli.client import Admin


ASKING = 3.0
"""Seconds for the reply of a cluster, in the background process."""
ALTOGETHER = 10.0
"""Seconds after which that process ends in any case."""
ASK = "--ask"
_OPTIONS = {
    "-n": "namesrv",
    "--namesrv": "namesrv",
    "--profile": "profile",
    "--map": "map",
    "--access-key": "access_key",
    "--secret-key-file": "secret_key_file",
    **{f"--tls-{name}": f"tls_{name}" for name in ("ca", "cert", "key", "config")},
}
_SWITCHES = {"--tls": ("tls", True), "--no-tls": ("tls", False), "--tls-insecure": ("tls_insecure", True)}
KINDS = ("topics", "groups", "brokers", "clusters", "profiles")
_QUOTES = "'\""
_BREAKS = re.compile(r"\0([:=;])\0")
"""The characters of COMP_WORDBREAKS at which bash splits a word."""


def print_names(arguments: Sequence[str]) -> None:
    """Print the names of the kind `arguments[0]`; the rest are the words of the command line."""
    try:
        if list(arguments[:1]) == [ASK]:
            _renew(arguments[1], arguments[2:])
            return
        names = _found(arguments[0], arguments[1:])
    except Exception:  # a completing shell has nowhere to show an error
        return
    for name in names:
        # Names come from the cluster: a shell splits at spaces, and a terminal obeys control characters.
        if name.isprintable() and not re.search(r"\s", name):
            print(name)


def _found(kind: str, words: Sequence[str]) -> Iterable[str]:
    if kind == "profiles":
        from rmqcli.cli.profiles import load_profiles

        return sorted(load_profiles())
    if kind not in KINDS:
        return []

    path, _ = _place(kind, words)
    names, fresh = known(path)
    if not fresh:
        store(path, names)  # so that a Tab meanwhile does not start another process
        _ask_aside([ASK, kind, *words])
    return names


def _place(kind: str, words: Sequence[str]) -> tuple[Path, Settings]:
    """Return the file of the cache, and the settings of the command line."""
    from rmqcli.cli.settings import Given, Settings

    settings = Settings(Given(**_given(words)))
    # Warnings about settings would be printed into the line that is being typed.
    with Path(os.devnull).open("w") as nothing, redirect_stderr(nothing):
        options = settings.server_options
    return cache_path(kind, repr(options)), settings


def _ask_aside(words: Sequence[str]) -> None:
    """Start the process that queries the cluster. It has no standard streams, because the shell waits until
    they are closed.
    """
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    program = [sys.executable, "-m", "rmqcli", "__complete", *words]
    os.posix_spawn(sys.executable, program, os.environ, file_actions=nothing, setpgroup=0)


def _renew(kind: str, words: Sequence[str]) -> None:
    """Query the cluster and cache the names."""

    path, settings = _place(kind, words)
    store(path, _asked(kind, settings.client_options))


def _given(words: Sequence[str]) -> dict[str, Any]:
    """Return the options that choose a cluster; the last one of a name takes precedence, as in a command."""
    whole = [word.strip(_QUOTES) for word in _BREAKS.sub(r"\1", "\0".join(words)).split("\0")]
    found: dict[str, Any] = dict(_SWITCHES[word] for word in whole if word in _SWITCHES)
    for name, value in _pairs(whole):
        key = _OPTIONS.get(name)
        if key == "map":
            found[key] = (*found.get(key, ()), value)
        elif key is not None:
            found[key] = value
    return found


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield every word with the one that follows it; yield `--name=value` as two words."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        yield (name, value) if equals and name.startswith("--") else (word, following)


def _asked(kind: str, options: dict[str, Any]) -> list[str]:
    """Return the names that the cluster knows now. Raise TimeoutError if it does not respond in time."""
    with _alarm(ALTOGETHER):
        import trio

        from rmqcli.client import Admin

        async def main() -> list[str]:
            with trio.fail_after(ASKING):
                async with Admin(**options) as admin:
                    return await names_of(kind, admin)

        return trio.run(main)


async def names_of(kind: str, admin: Admin) -> list[str]:
    """Return the topics of applications, the groups, brokers or clusters, sorted."""
    if kind == "topics":
        from rmqcli.plans.topics import listed_topics

        return await listed_topics(admin, everything=False)
    if kind == "groups":
        return await admin.groups.names(failures={})
    info = await admin.brokers.cluster_info()
    return sorted([*info.broker_addr_table] if kind == "brokers" else [*info.cluster_addr_table])


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after `seconds`, even if it is busy."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# A file for each cluster and kind of name in the user's cache folder, with one name per line.
#
# It is in the folder that RMQ_CACHE_DIR names, or in the user's cache folder. The time of its last change is
# its age.

KEPT = 60.0
"""Seconds for which cached names are valid."""
KEPT_EMPTY = 10.0
"""Seconds for which an empty list is valid: a cluster that did not respond may be back soon."""


def cache_path(kind: str, cluster: str) -> Path:
    """Return the file for the names of a kind; `cluster` is any string that identifies the cluster."""
    import hashlib

    folder = user_folder("cache", "RMQ_CACHE_DIR")
    return folder / "names" / f"{kind}-{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"


def known(path: Path) -> tuple[list[str], bool]:
    """Return the names in a file, none if it does not exist, and whether the file is recent enough to be
    valid.
    """
    try:
        age = time.time() - path.stat().st_mtime
        names = path.read_text("utf-8").splitlines()
    except OSError:
        return [], False
    return names, 0 <= age < (KEPT if names else KEPT_EMPTY)


def store(path: Path, names: Sequence[str]) -> None:
    """Write the names, which other processes may read meanwhile. An OSError leaves the file unchanged."""
    from rmqcli.files import replace_file

    replace_file(path, "".join(f"{name}\n" for name in names).encode(), durable=False, mode=OWNER_ONLY)
