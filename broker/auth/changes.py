"""Changes to accounts by requests: the file is read and rewritten as a whole with mode 0600, and the change
is in effect when the reply is sent (4.9.8 takes up to 5 s).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

import trio
from msgspec.structs import replace

from rmqcli.broker.auth.files import Loaded
from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.disk import Disk, save_table
from rmqcli.codec.acl.account_file import FileVersion, file_of, parse_file
from rmqcli.codec.acl.addresses import parse_rule
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.acl.rewriting import file_text, with_account, with_white, without_account

OWNER_ONLY: Final = 0o600

Change = Callable[[Mapping[str, Any]], dict[str, Any]]


class NoAccount(AclError):
    """Raised if no file has the account."""


async def put_account(access: AccountFiles, given: Mapping[str, Any], now_ms: int) -> None:
    """Create an account in plain_acl.yml, or change it in the file that has it. Raises AclError or
    OSError."""
    await _change(access, _file_of(str(given.get("accessKey"))), lambda old: with_account(old, given), now_ms)


async def delete_account(access: AccountFiles, key: str, now_ms: int) -> None:
    """Delete an account from the file that has it. Raises NoAccount, AclError or OSError."""

    def choose(found: Loaded) -> Path | None:
        path = _file_of(key)(found)
        if path is None:
            raise NoAccount(key)
        return path

    await _change(access, choose, lambda old: without_account(old, key), now_ms)


async def set_white(access: AccountFiles, addresses: Collection[str], path: str, now_ms: int) -> None:
    """Replace the global whitelist of a file, by default plain_acl.yml. Raises AclError or OSError."""
    for one in addresses:
        parse_rule(one)

    def choose(found: Loaded) -> Path | None:
        if not path or Path(path) == access.default:
            return access.default
        if found.file(path) is None:
            raise AclError(f"{path} is none of the files of accounts")
        return Path(path)

    await _change(access, choose, lambda old: with_white(old, addresses), now_ms)


def _file_of(key: str) -> Callable[[Loaded], Path | None]:
    def choose(found: Loaded) -> Path | None:
        entry = found.rules.accounts.get(key)
        return None if entry is None else Path(entry[1])

    return choose


async def _change(
    access: AccountFiles, choose: Callable[[Loaded], Path | None], change: Change, now_ms: int
) -> None:
    """Change the file that `choose` returns (None: plain_acl.yml), and make it effective."""
    async with access.changing:
        found = access.current
        path = choose(found) or access.default
        before = await access.in_thread(_content, access.disk, path)
        known = found.file(str(path))
        if known is None or found.contents[path] != before:
            known = await access.in_thread(parse_file, str(path), before)
        version = FileVersion(known.version.counter + 1, now_ms)
        document = change(known.document)
        fresh = await access.in_thread(file_of, str(path), document)
        # Writing thousands of accounts takes seconds, so the new permissions take effect before.
        await access.put(path, before, replace(fresh, version=version))
        try:
            text = await access.in_thread(file_text, document, version)
            file = await access.in_thread(parse_file, str(path), text)
            await access.in_thread(save_table, access.disk, path, text, OWNER_ONLY)
        except BaseException:
            with trio.CancelScope(shield=True):
                await access.put(path, before, known)
            raise
        await access.put(path, text, file)


def _content(disk: Disk, path: Path) -> bytes:
    return b"" if disk.state(path) is None else disk.read(path)
