"""Decides what an account of 4.9 may do, by the files of accounts or by the answers of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from codec.acl.account_file import Account, AccountFile, Permission, parse_file
from codec.acl.addresses import read_address
from codec.acl.decision import Attempt, Need, decide, merged, on_group, on_topic, permission_text
from codec.acl.errors import AclError
from codec.names import RETRY_PREFIX
from rmqcli.flows.errors import InvalidInput

ACTIONS: Final = ("pub", "sub", "admin")
_ADMIN_CODE: Final = 17
"""Any request for administrators: they are all alike."""


class Question(NamedTuple):
    """An action of an account, on a need or, for `admin`, on none."""

    action: str
    need: Need | None


def question(action: str, resource: str | None) -> Question:
    """Return what is asked; InvalidInput for an action or resource that does not exist."""
    if action not in ACTIONS:
        raise InvalidInput(f"{action!r}: expected {', '.join(ACTIONS)}")
    if action == "admin":
        if resource is not None:
            raise InvalidInput(f"{resource!r}: admin has no resource")
        return Question(action, None)
    kind, _, name = (resource or "").partition(":")
    if kind.lower() == "topic" and name:
        return Question(action, on_topic(name, Permission.PUB if action == "pub" else Permission.SUB))
    if kind.lower() == "group" and name and action == "sub":
        return Question(action, on_group(name))
    raise InvalidInput(f"{resource or ''!r}: expected Topic:NAME, or Group:NAME with sub")


def read_account_files(paths: Sequence[Path]) -> list[AccountFile]:
    """Return the files in the order of a broker: plain_acl.yml and the folder acl beside it for a folder `conf`.

    OSError; InvalidInput for a file that a broker refuses.
    """
    files = [one for path in paths for one in (_of_folder(path) if path.is_dir() else [path])]
    if not files:
        raise InvalidInput(f"{', '.join(map(str, paths))}: no file of accounts")
    try:
        return [parse_file(str(path), path.read_bytes()) for path in files]
    except AclError as error:
        raise InvalidInput(str(error)) from None


def _of_folder(folder: Path) -> list[Path]:
    found = sorted(path for path in (folder / "acl").rglob("*.y*ml") if path.name != "tools.yml")
    plain = folder / "plain_acl.yml"
    return [
        *(path for path in found if path.suffix in (".yml", ".yaml")),
        *([plain] if plain.exists() else []),
    ]


def decided(
    files: Sequence[AccountFile], key: str | None, asked: Question, host: str | None
) -> tuple[bool, str, str]:
    """Return whether the files allow it, Java's text of a refusal, and the line that decides."""
    address = None if host is None else read_address(host)
    if host is not None and address is None:
        raise InvalidInput(f"{host!r} is not an address")
    needs = () if asked.need is None else (asked.need,)
    attempt = Attempt(address, key, lambda: needs, _ADMIN_CODE if asked.need is None else None)
    decision = decide(merged(files), attempt)
    return decision.allowed, decision.refusal, decision.line


def account_rows(files: Sequence[AccountFile]) -> list[list[Any]]:
    """Return a row for each account in force: key, admin, permissions, defaults, white address, file."""
    return [_row(account, path) for account, path in merged(files).accounts.values()]


def _row(account: Account, path: str) -> list[Any]:
    texts = {name: permission_text(one) for name, one in account.permissions.items()}
    topics = [f"{name}={text}" for name, text in texts.items() if not name.startswith(RETRY_PREFIX)]
    groups = [
        f"{name.removeprefix(RETRY_PREFIX)}={text}"
        for name, text in texts.items()
        if name.startswith(RETRY_PREFIX)
    ]
    defaults = permission_text(account.default_topic), permission_text(account.default_group)
    return [account.access_key, account.admin, topics, groups, *defaults, account.white.text or None, path]
