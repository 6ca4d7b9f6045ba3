"""The users and policies of 5.x that a proxy knows: those of a broker of the cluster, read periodically.

Each broker has its own users, and administrators configure the same ones on all brokers (`rmq acl`). Like
Java's proxy, which requests a user from any broker, this one reads them from the first broker by name that
responds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

import trio

from rmqcli.client import UNREACHED, ClientError, NoBrokers
from rmqcli.client.instance import ClientInstance
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.acl.policies import User, user_of
from rmqcli.codec.acl.users import subject_of
from rmqcli.codec.bodies.acl import AclInfo, UserInfo
from rmqcli.codec.headers.acl import ListAclsRequestHeader, ListUsersRequestHeader
from rmqcli.codec.operations.acl import AUTH_LIST_ACL, AUTH_LIST_USER
from rmqcli.codec.operations.routes import GET_BROKER_CLUSTER_INFO

READ_SECONDS: Final = 5.0

log = logging.getLogger("rmqcli.proxy")


class ClusterUsers:
    """The users by name. `unknown` is the reason why they were never read; None once they were."""

    def __init__(self, instance: ClientInstance) -> None:
        self.by_name: Mapping[str, User] = {}
        self.listeners: list[Callable[[], None]] = []
        self.unknown: ClientError | None = None
        self._instance = instance
        self._read: tuple[str, list[UserInfo], list[AclInfo]] | None = None
        self._is_out = False

    async def watch(self) -> None:
        """Run the service that follows changes. While no broker responds, the users do not change."""
        while True:
            await trio.sleep(READ_SECONDS)
            await self.follow()

    async def follow(self) -> None:
        """Read the users once, or log why that failed."""
        try:
            await self._follow()
        except ClientError as error:
            if self._read is None:
                self.unknown = error
            if not self._is_out:
                log.warning("the users of the cluster cannot be read: %s", error)
            self._is_out = True
        else:
            self._is_out = False

    async def _follow(self) -> None:
        cluster, address, users = await self._users()
        acls = (
            await self._instance.ask(
                address, AUTH_LIST_ACL, ListAclsRequestHeader(subject_filter="", resource_filter=""), None
            )
        ).body or []
        found = cluster, users, acls
        self.unknown = None
        if found == self._read:
            return
        self._read = found
        policies = {acl.subject: acl for acl in acls}
        known = [_user(one, policies.get(subject_of(one.username or "")), cluster) for one in users]
        self.by_name = {user.access_key: user for user in known if user is not None}
        for listener in self.listeners:
            listener()

    async def _users(self) -> tuple[str, str, list[UserInfo]]:
        """Return the cluster and address of the first broker that responds, and its users. Raises ClientError."""
        answer = await self._instance.ask_name_server(GET_BROKER_CLUSTER_INFO, None)
        lost: ClientError | None = None
        for name, broker in sorted(answer.body.broker_addr_table.items()):
            if 0 not in broker.broker_addrs:
                continue
            address = broker.broker_addrs[0]
            try:
                users = await self._instance.ask(
                    address, AUTH_LIST_USER, ListUsersRequestHeader(filter=""), None
                )
            except UNREACHED as error:
                lost = lost or error
                continue
            log.debug("%d users of broker %s", len(users.body or []), name)
            return broker.cluster, address, users.body or []
        if lost is not None:
            raise lost
        raise NoBrokers(self._instance.name_servers.current)


def _user(info: UserInfo, acl: AclInfo | None, cluster: str) -> User | None:
    """Return a user with its policies; None for one that cannot be used."""
    # With an empty secret key, anyone could sign. Brokers show the passwords of super users only to super users.
    if not info.password:
        log.warning(
            "user %s cannot use this proxy, because its brokers hide the password from the account of the proxy, "
            "which is not that of a super user",
            info.username,
        )
        return None
    try:
        return user_of(info, acl, cluster)
    except AclError as error:
        log.error("user %s cannot use this proxy: %s", info.username, error)
        return None
