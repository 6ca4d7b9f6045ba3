"""Start of the access control of a broker or a proxy."""

from __future__ import annotations

import logging

from rmqcli.broker.auth.control import NO_WHITELISTS, AccessControl, KnownUsers, Whitelists
from rmqcli.broker.auth.files import default_file
from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.auth.users import Users
from rmqcli.broker.config import BrokerConfig, ProxyConfig
from rmqcli.broker.config.access import first_users, whitelist
from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import ConfigError
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.system import NowMs
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.names import reply_topic

_log = logging.getLogger("rmqcli.broker.auth")


async def open_access(
    config: BrokerConfig, users: Users, disk: Disk, in_thread: InThread, now_ms: NowMs
) -> AccessControl | None:
    """Return the access control that the configuration requires, None for none. The users are loaded, and the
    first ones created. Raises ConfigError, StoreDamaged or OSError.
    """
    await in_thread(users.load)
    try:
        for user in first_users(config):
            await users.ensure(user)
    except AclError as error:
        raise ConfigError(f"a user of the configuration cannot be created: {error}") from None
    access = await control(
        config, users, disk, in_thread, now_ms, reply_topic=reply_topic(config.broker_cluster_name)
    )
    if config.authentication_enabled and not users.by_name:
        _log.warning(
            "%s has no users, and initAuthenticationUser names none: no user may use this broker", users.path
        )
    return access


async def control(
    config: BrokerConfig | ProxyConfig,
    users: KnownUsers,
    disk: Disk,
    in_thread: InThread,
    now_ms: NowMs,
    *,
    reply_topic: str = "",
) -> AccessControl | None:
    """Return the access control that the configuration requires, None for none. Raises ConfigError or OSError."""
    if not (config.acl_enable or config.authentication_enabled):
        return None
    files = AccountFiles(default_file(config), disk, in_thread, now_ms) if config.acl_enable else None
    access = AccessControl(
        now_ms,
        files,
        users if config.authentication_enabled else None,
        authorizes=config.authorization_enabled,
        whitelists=_whitelists(config),
        reply_topic=reply_topic,
    )
    if files is not None:
        await files.load()
    access.refresh()
    return access


def _whitelists(config: BrokerConfig | ProxyConfig) -> Whitelists:
    if not config.authentication_enabled:
        return NO_WHITELISTS
    return Whitelists(whitelist(config.authentication_whitelist), whitelist(config.authorization_whitelist))
