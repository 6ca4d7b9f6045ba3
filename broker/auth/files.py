"""The files of accounts on the disk: plain_acl.yml, and all files in the folder `acl` beside it (4.9.8
`PlainPermissionManager`, `AclUtils`).

The files of the folder come first, ordered by path; plain_acl.yml is last.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rmqcli.broker.config import BrokerConfig, ProxyConfig, expand_path
from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import ConfigError
from rmqcli.codec.acl.account_file import MAX_FILE, AccountFile, parse_file
from rmqcli.codec.acl.decision import Rules, duplicates, merged
from rmqcli.codec.acl.errors import AclError

ENDINGS: Final = (".yml", ".yaml")
MOST_FILES: Final = 1000
DEEPEST: Final = 8
"""Maximum number of levels of folders below the folder of the files."""

OTHERS: Final = 0o077

Contents = Mapping[Path, bytes]

_log = logging.getLogger("rmqcli.broker.auth")


def default_file(config: BrokerConfig | ProxyConfig) -> Path:
    """Return the path of plain_acl.yml. Raises ConfigError if nothing names it."""
    home = config.rocketmq_home or os.environ.get("ROCKETMQ_HOME")
    given = config.plain_acl_file
    if given is None:
        if not home:
            raise ConfigError(
                "aclEnable=true: no file of accounts is named: set plainAclFile=PATH, or rocketmqHome or "
                "ROCKETMQ_HOME to the folder that has conf/plain_acl.yml"
            )
        return expand_path(home).absolute() / "conf" / "plain_acl.yml"
    path = expand_path(given)
    return path if path.is_absolute() or not home else expand_path(home).absolute() / path


def read_files(disk: Disk, default: Path) -> dict[Path, bytes]:
    """Return the contents of the files, in order; without plain_acl.yml if it does not exist. Blocks.

    Raises OSError if a file cannot be read, and ConfigError if there are too many files, or one is too long.
    """
    paths = _found(disk, default.parent / "acl", DEEPEST)
    if disk.state(default) is not None:
        paths.append(default)
    if len(paths) > MOST_FILES:
        raise ConfigError(f"{default.parent}/acl: {len(paths)} files of accounts, {MOST_FILES} is the limit")
    return {path: _read(disk, path) for path in paths}


def read_by_others(disk: Disk, paths: Iterable[Path]) -> list[Path]:
    """Return the files that users other than their owner may read. Blocks."""
    states = [(path, disk.state(path)) for path in paths]
    return [path for path, state in states if state is not None and (state.mode or 0) & OTHERS]


def _read(disk: Disk, path: Path) -> bytes:
    state = disk.state(path)
    if state is not None and state.size > MAX_FILE:
        raise ConfigError(f"{path}: {state.size} bytes, {MAX_FILE} is the limit")
    return disk.read(path)


def _found(disk: Disk, folder: Path, depth: int) -> list[Path]:
    found: list[Path] = []
    for path in disk.list(folder):
        state = disk.state(path)
        if state is None or path.name == "tools.yml":
            continue
        if not state.is_folder:
            found += [path] if path.suffix in ENDINGS else []
        elif depth:
            found += _found(disk, path, depth - 1)
    return found


class Loaded:
    """The files as they were read, in order, and their rules."""

    def __init__(self, contents: Contents, files: Mapping[Path, AccountFile]) -> None:
        """`files` has the parsed files of the contents."""
        self.contents = dict(contents)
        self.files = [files[path] for path in contents]
        self.rules: Rules = merged(self.files)
        for key, path in duplicates(self.files):
            _log.warning("%s: account %s is ignored: an earlier file has it", path, key)

    @classmethod
    def read(cls, contents: Contents, now_ms: int) -> Loaded:
        """Parse the files. Raises AclError if one is invalid."""
        return cls(contents, {path: parse_file(str(path), data, now_ms) for path, data in contents.items()})

    def changed(self, order: Iterable[Path], ready: Mapping[Path, tuple[bytes, AccountFile]]) -> Loaded:
        """Return the files in `order`, with those in `ready` replaced, and without files that were never
        parsed."""
        known = dict(zip(self.contents, zip(self.contents.values(), self.files, strict=True), strict=True))
        known.update(ready)
        wanted = {path: known[path] for path in order if path in known}
        return Loaded(
            {path: content for path, (content, _) in wanted.items()},
            {path: file for path, (_, file) in wanted.items()},
        )

    def file(self, path: str) -> AccountFile | None:
        return next((one for one in self.files if one.path == path), None)


NOTHING: Final = Loaded({}, {})


def loaded(contents: Contents, now_ms: int) -> Loaded:
    """Return the files at startup. Raises ConfigError if one is invalid, because the broker must not run
    unprotected.
    """
    try:
        return Loaded.read(contents, now_ms)
    except AclError as error:
        raise ConfigError(f"aclEnable=true: {error}") from None
