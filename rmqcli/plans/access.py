"""Permissions of an account: decided here from account files (4.9), or queried from a broker.

A broker is queried with requests that change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqcli.codec.acl.account_file import Account, AccountFile, Permission, parse_file
from rmqcli.codec.acl.addresses import read_address
from rmqcli.codec.acl.decision import Attempt, Need, decide, merged, on_group, on_topic, permission_text
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.names import RETRY_PREFIX
from rmqcli.flows.errors import InvalidInput

if TYPE_CHECKING:
    from rmqcli.client import Admin


ACTIONS: Final = ("pub", "sub", "admin")
_ADMIN_CODE: Final = 17
"""The code of a request for administrators; all such requests are equivalent here."""


class Question(NamedTuple):
    """An action of an account, and the permission that it needs (None for `admin`)."""

    action: str
    need: Need | None


def question(action: str, resource: str | None) -> Question:
    """Parse a question. Raise InvalidInput for an unknown action or resource."""
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
    """Return the files in the order in which a broker reads them. A folder `conf` means plain_acl.yml and the
    folder acl beside it.

    Raise OSError, and InvalidInput for a file that a broker refuses.
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
    """Return whether the files allow the action, Java's text of a refusal, and the line that decides."""
    address = None if host is None else read_address(host)
    if host is not None and address is None:
        raise InvalidInput(f"{host!r} is not an address")
    needs = () if asked.need is None else (asked.need,)
    attempt = Attempt(address, key, lambda: needs, _ADMIN_CODE if asked.need is None else None)
    decision = decide(merged(files), attempt)
    return decision.allowed, decision.refusal, decision.line


def account_rows(files: Sequence[AccountFile]) -> list[list[Any]]:
    """Return a row for each effective account: key, admin, permissions, defaults, white address, file."""
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


NO_QUEUE = 2**31 - 1
"""The number of a queue that no topic has: a send to it is refused after the check of permissions, and stores
nothing.
"""
NO_TOPIC = "RMQ_NO_SUCH_DEFAULT_TOPIC"
"""The name of a default topic that does not exist, so that no broker creates the topic of the send."""


async def probe(admin: Admin, address: str, need: Need) -> str:
    """Return the text with which a broker's access control refuses, or "" if it allows the request. Raise
    other errors of the client.
    """
    from rmqcli.client import BrokerBusy, BrokerRefused, NotPermitted  # not imported for decisions from files

    try:
        await _ask(admin, address, need)
    except BrokerBusy:
        raise  # sent before the permission check
    except NotPermitted as error:
        if error.by_account:
            return str(error)
    except BrokerRefused:
        pass  # for another reason, after the permission check
    return ""


async def _ask(admin: Admin, address: str, need: Need) -> None:
    from rmqcli.codec.headers.clients import GetConsumerListByGroupRequestHeader
    from rmqcli.codec.headers.pull import QueryMessageRequestHeader
    from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
    from rmqcli.codec.operations.clients import GET_CONSUMER_LIST_BY_GROUP
    from rmqcli.codec.operations.messages import QUERY_MESSAGE, SEND_MESSAGE_V2

    ask = admin.instance.ask
    if need.name.startswith(RETRY_PREFIX):
        group = GetConsumerListByGroupRequestHeader(consumer_group=need.name.removeprefix(RETRY_PREFIX))
        await ask(address, GET_CONSUMER_LIST_BY_GROUP, group, None)
    elif need.permission is Permission.SUB:
        query = QueryMessageRequestHeader(
            topic=need.name, key="-", max_num=1, begin_timestamp=0, end_timestamp=1
        )
        await ask(address, QUERY_MESSAGE, query, None)
    else:
        send = SendMessageRequestHeaderV2(
            producer_group="rmq", topic=need.name, default_topic=NO_TOPIC, default_topic_queue_nums=1,
            queue_id=NO_QUEUE, sys_flag=0, born_timestamp=0, flag=0, properties="",
        )  # fmt: skip
        await ask(address, SEND_MESSAGE_V2, send, b"-")
