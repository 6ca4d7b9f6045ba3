"""Access control of brokers: accounts of 4.x (codes 50 to 53), users and policies of 5.x (3001 to 3010).

Every broker has its own accounts, so calls take labels and addresses, as returned by `admin.brokers.seats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rmqcli.client.admin.area import Area, HeaderT
from rmqcli.client.admin.values import TopicChange
from rmqcli.client.errors import ClientError
from rmqcli.codec.bodies.acl import AclInfo, UserInfo
from rmqcli.codec.headers.acl import (
    CreateAccessConfigRequestHeader,
    CreateUserRequestHeader,
    DeleteAccessConfigRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetAclRequestHeader,
    GetBrokerAclConfigResponseHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateAclRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
    UpdateUserRequestHeader,
)
from rmqcli.codec.operations.acl import (
    AUTH_CREATE_USER,
    AUTH_DELETE_ACL,
    AUTH_DELETE_USER,
    AUTH_GET_ACL,
    AUTH_GET_USER,
    AUTH_LIST_ACL,
    AUTH_LIST_USER,
    AUTH_UPDATE_ACL,
    AUTH_UPDATE_USER,
    DELETE_ACL_CONFIG,
    GET_BROKER_CLUSTER_ACL_INFO,
    UPDATE_AND_CREATE_ACL_CONFIG,
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
)
from rmqcli.codec.operations.operation import Operation

Failures = dict[str, ClientError]
Account = CreateAccessConfigRequestHeader
_SUBJECT: Final = "User:"


class AccessAdmin(Area):
    async def versions(
        self, seats: Mapping[str, str], *, failures: Failures | None = None
    ) -> dict[str, GetBrokerAclConfigResponseHeader]:
        """Return the versions of the account files (code 52).

        A 4.9 broker with aclEnable=false never replies.
        """

        async def ask(address: str) -> GetBrokerAclConfigResponseHeader:
            return (await self.instance.ask(address, GET_BROKER_CLUSTER_ACL_INFO, None, None)).header

        return await self.ask_all(seats, ask, failures)

    async def put_account(self, seats: Mapping[str, str], account: Account) -> TopicChange:
        """Create an account of 4.x, or change the given fields (code 50). `admin` is false if not given."""
        return await self._in_turn(seats, UPDATE_AND_CREATE_ACL_CONFIG, account)

    async def delete_account(self, seats: Mapping[str, str], access_key: str) -> TopicChange:
        """Delete an account of 4.x (code 51). Brokers that do not have it refuse."""
        header = DeleteAccessConfigRequestHeader(access_key=access_key)
        return await self._in_turn(seats, DELETE_ACL_CONFIG, header)

    async def set_white_list(
        self, seats: Mapping[str, str], addresses: list[str], path: str = ""
    ) -> TopicChange:
        """Replace the global whitelist (code 53) of the file at `path`, by default plain_acl.yml."""
        header = UpdateGlobalWhiteAddrsConfigRequestHeader(
            global_white_addrs=",".join(addresses), acl_file_full_path=path
        )
        return await self._in_turn(seats, UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)

    async def _in_turn(
        self, seats: Mapping[str, str], operation: Operation[HeaderT, None, None, None], header: HeaderT
    ) -> TopicChange:
        """Change one broker after another: those on one machine may share a file, which 4.9.8 does not
        lock.
        """
        done: list[str] = []
        failures: Failures = {}
        for label, address in seats.items():
            try:
                await self.instance.ask(address, operation, header, None)
                done.append(label)
            except ClientError as error:
                failures[label] = error
        if failures and not done:
            raise next(iter(failures.values()))
        return TopicChange(tuple(done), failures)

    async def users(
        self, seats: Mapping[str, str], text: str = "", *, failures: Failures | None = None
    ) -> dict[str, list[UserInfo]]:
        """Return the users whose names contain `text`, with their passwords (code 3005)."""
        header = ListUsersRequestHeader(filter=text)
        bodies = await self.bodies(seats, AUTH_LIST_USER, header, failures)
        return {label: body or [] for label, body in bodies.items()}

    async def user(
        self, seats: Mapping[str, str], name: str, *, failures: Failures | None = None
    ) -> dict[str, UserInfo | None]:
        """Return one user (code 3004); None for a broker without it."""
        return await self.bodies(seats, AUTH_GET_USER, GetUserRequestHeader(username=name), failures)

    async def create_user(self, seats: Mapping[str, str], user: UserInfo) -> TopicChange:
        """Create a user (code 3001). Brokers that have it refuse."""
        header = CreateUserRequestHeader(username=user.username)
        return await self.change(seats, AUTH_CREATE_USER, header, user)

    async def update_user(self, seats: Mapping[str, str], user: UserInfo) -> TopicChange:
        """Change the fields of a user that are not None (code 3002).

        Brokers that do not have the user refuse.
        """
        header = UpdateUserRequestHeader(username=user.username)
        return await self.change(seats, AUTH_UPDATE_USER, header, user)

    async def delete_user(self, seats: Mapping[str, str], name: str) -> TopicChange:
        """Delete a user and its policies (code 3003). Brokers do not report that the user was missing."""
        return await self.change(seats, AUTH_DELETE_USER, DeleteUserRequestHeader(username=name), None)

    async def policies(
        self,
        seats: Mapping[str, str],
        user: str = "",
        resource: str = "",
        *,
        failures: Failures | None = None,
    ) -> dict[str, list[AclInfo]]:
        """Return the policies whose users and resources contain these strings (code 3010)."""
        header = ListAclsRequestHeader(subject_filter=user, resource_filter=resource)
        bodies = await self.bodies(seats, AUTH_LIST_ACL, header, failures)
        return {label: body or [] for label, body in bodies.items()}

    async def policies_of(
        self, seats: Mapping[str, str], name: str, *, failures: Failures | None = None
    ) -> dict[str, AclInfo | None]:
        """Return the policies of one user (code 3009); None if it has none.

        Brokers without the user refuse.
        """
        header = GetAclRequestHeader(subject=subject_of(name))
        return await self.bodies(seats, AUTH_GET_ACL, header, failures)

    async def put_policies(self, seats: Mapping[str, str], acl: AclInfo) -> TopicChange:
        """Add policies to a user, replacing those of the same resources (code 3007)."""
        return await self.change(seats, AUTH_UPDATE_ACL, UpdateAclRequestHeader(subject=acl.subject), acl)

    async def delete_policies(
        self, seats: Mapping[str, str], name: str, resource: str | None = None, kind: str | None = None
    ) -> TopicChange:
        """Delete the policy of a user for a resource, or all of them (code 3008)."""
        header = DeleteAclRequestHeader(subject=subject_of(name), policy_type=kind, resource=resource)
        return await self.change(seats, AUTH_DELETE_ACL, header, None)


def subject_of(name: str) -> str:
    """Return `User:name`, the only kind of subject."""
    return name if name.startswith(_SUBJECT) else f"{_SUBJECT}{name}"


def user_of(subject: str | None) -> str:
    """Return the name in `User:name`."""
    return (subject or "").removeprefix(_SUBJECT)
