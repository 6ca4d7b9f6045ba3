"""Changes of a file of accounts by requests (4.9.8 `PlainPermissionManager.updateAccessConfig`,
`deleteAccessConfig`, `updateGlobalWhiteAddrsConfig`). Other members stay; comments are lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from rmqcli.codec.acl.account_file import PERMISSIONS, SHORTEST_KEY, FileVersion, is_true, parse_account
from rmqcli.codec.acl.errors import AclError

_ACCOUNTS: Final = "accounts"
EXPECTED: Final = "DENY, PUB, SUB, PUB|SUB or SUB|PUB"


def with_account(document: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with an account at the end of the list. Members that are None stay unchanged,
    except that `admin` becomes false. Raises AclError for a value that is invalid in a file.
    """
    key = given.get("accessKey") or ""
    _check(given)
    members = {name: value for name, value in given.items() if value is not None}
    known: dict[str, Any] = next((one for one in _accounts(document) if one.get("accessKey") == key), {})
    changed = {**known, **members, "admin": bool(given.get("admin"))}
    parse_account(changed, f"account {key}")
    others = [one for one in _accounts(document) if one.get("accessKey") != key]
    return {**document, _ACCOUNTS: [*others, changed]}


def without_account(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the document without an account."""
    return {**document, _ACCOUNTS: [one for one in _accounts(document) if one.get("accessKey") != key]}


def with_white(document: Mapping[str, Any], addresses: Collection[str]) -> dict[str, Any]:
    """Return the document with another global whitelist."""
    return {**document, "globalWhiteRemoteAddresses": list(addresses)}


def file_text(document: Mapping[str, Any], version: FileVersion) -> bytes:
    """Return the document as block YAML, as Java writes it, with its version at the end."""
    import yaml

    members = {name: value for name, value in document.items() if name != "dataVersion"}
    if _ACCOUNTS in members:
        members[_ACCOUNTS] = [_typed(one) for one in _accounts(document)]
    members["dataVersion"] = [{"counter": version.counter, "timestamp": version.timestamp}]
    text: str = yaml.safe_dump(
        members, default_flow_style=False, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.encode()


def _typed(members: Mapping[str, Any]) -> dict[str, Any]:
    if "admin" not in members:
        return dict(members)
    return {**members, "admin": is_true(members["admin"], "account")}


def _accounts(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(document.get(_ACCOUNTS) or ())


def _check(given: Mapping[str, Any]) -> None:
    """Refuse keys that are too short and unknown permissions, with Java's texts, but without the secret."""
    key, secret = given.get("accessKey") or "", given.get("secretKey") or ""
    if min(len(key), len(secret)) < SHORTEST_KEY:
        raise AclError(
            f"The accessKey={key} and secretKey=*** cannot be null and length should longer than 6"
        )
    for member in ("topicPerms", "groupPerms"):
        for entry in given.get(member) or ():
            name, _, permission = entry.partition("=")
            if not name.strip() or permission.strip() not in PERMISSIONS:
                raise _unknown(entry)
    for member in ("defaultTopicPerm", "defaultGroupPerm"):
        text = given.get(member)
        if text is not None and text.strip() not in PERMISSIONS:
            raise _unknown(text)


def _unknown(entry: str) -> AclError:
    return AclError(f"Parse resource permission error for {entry}.\nThe expected permissions are {EXPECTED}")
