"""The properties of 5.x that configure users and policies (`AuthConfig`).

`initAuthenticationUser` is a JSON object, {"username": "…", "password": "…"}: the super user that a broker
creates when it starts, unless there is one of that name. With `authenticationEnabled`, the account of
`innerClientAuthenticationCredentials` becomes a super user in the same way. The whitelists are lists of
request codes and full names of gRPC messages, separated by commas.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rmqcli.broker.config.broker import BrokerConfig
from rmqcli.broker.config.inner_account import own_account
from rmqcli.broker.config.servers import ProxyConfig
from rmqcli.broker.errors import ConfigError
from rmqcli.codec.bodies.acl import UserInfo

FIRST_USER: Final = "initAuthenticationUser"


class _FirstUser(msgspec.Struct, frozen=True, rename="camel"):
    username: str
    password: str


def check_access(config: BrokerConfig | ProxyConfig) -> None:
    """Raise ConfigError for properties that contradict each other, or cannot be read."""
    if config.authorization_enabled and not config.authentication_enabled:
        raise ConfigError(
            "authorizationEnabled=true needs authenticationEnabled=true: without signatures, anyone may name any user"
        )
    whitelist(config.authentication_whitelist)
    whitelist(config.authorization_whitelist)


def first_users(config: BrokerConfig) -> list[UserInfo]:
    """Return the super users that must exist. Raises ConfigError, which does not show the value."""
    found: list[UserInfo] = []
    text = (config.init_authentication_user or "").strip()
    if text:
        try:
            first = msgspec.json.decode(text, type=_FirstUser)
        except msgspec.DecodeError:
            first = None
        if first is None or not first.username.strip() or not first.password.strip():
            raise ConfigError(f'{FIRST_USER}: {{"username": "…", "password": "…"}} is expected')
        found.append(UserInfo(username=first.username, password=first.password, user_type="Super"))
    account = own_account(config) if config.authentication_enabled else None
    if account is not None:
        found.append(UserInfo(username=account.access_key, password=account.secret_key, user_type="Super"))
    return found


def whitelist(text: str | None) -> frozenset[int | str]:
    """Return the codes and names of a whitelist. Raises ConfigError."""
    words = [word.strip() for word in (text or "").split(",")]
    found = frozenset(int(word) if word.isdecimal() else word for word in words if word)
    for word in found:
        if isinstance(word, str) and not word.replace(".", "").replace("_", "").isalnum():
            raise ConfigError(
                f"{word!r} in a whitelist is neither a request code nor the name of a gRPC message"
            )
    return found
