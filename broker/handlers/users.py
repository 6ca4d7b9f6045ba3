"""Administration of users and policies of 5.x: codes 3001 to 3010 (5.3.3 `AdminBrokerProcessor`).

With access control, the gate requires Update of the cluster, or Get to read. In addition, passwords of super
users are shown only to super users, and only they may create, change or delete super users. Without
authorization, administration requires a super user, whereas Java allows it for every user.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rmqcli.broker.auth.users import Change
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.acl.policies import SUPER
from rmqcli.codec.acl.users import (
    UserError,
    name_of,
    policies_with,
    subject_of,
    users_with,
    with_changed_user,
    with_new_user,
    with_policies,
    without_policies,
    without_user,
)
from rmqcli.codec.bodies.acl import AclInfo, UserInfo
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.acl import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetAclRequestHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateAclRequestHeader,
    UpdateUserRequestHeader,
)

ONLY_SUPER = "The super user can only be update by super user"
BLANK = Refusal(ResponseCode.INVALID_PARAMETER, "The username is blank")


async def create_user(
    broker: BrokerContext, request: Request[CreateUserRequestHeader, UserInfo]
) -> Reply[None, None]:
    """Create a user (code 3001)."""
    is_super = _is_administrator(broker, request)
    user = _given(request.header.username, request.body)
    if _is_super(user) and not is_super:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "The super user can only be create by super user")
    return await _change(broker, user.username, lambda table: with_new_user(table, user))


async def update_user(
    broker: BrokerContext, request: Request[UpdateUserRequestHeader, UserInfo]
) -> Reply[None, None]:
    """Change the given members of a user (code 3002)."""
    is_super = _is_administrator(broker, request)
    user = _given(request.header.username, request.body)
    if _is_super(user) and not is_super:
        raise Refusal(ResponseCode.SYSTEM_ERROR, ONLY_SUPER)
    _check_target(broker, user.username, is_super=is_super)
    return await _change(broker, user.username, lambda table: with_changed_user(table, user))


async def delete_user(
    broker: BrokerContext, request: Request[DeleteUserRequestHeader, None]
) -> Reply[None, None]:
    """Delete a user and its policies, if there is one (code 3003)."""
    is_super = _is_administrator(broker, request)
    name = request.header.username
    if not (name or "").strip():
        raise Refusal(ResponseCode.NO_PERMISSION, "username can not be blank")
    _check_target(broker, name, is_super=is_super)
    return await _change(broker, name, lambda table: without_user(table, name or ""))


def get_user(broker: BrokerContext, request: Request[GetUserRequestHeader, None]) -> Reply[None, UserInfo]:
    """Return a user; without a body if there is none (code 3004)."""
    is_super = _is_administrator(broker, request)
    name = request.header.username
    if not (name or "").strip():
        raise BLANK
    user = broker.users.table.users.get(name or "")
    return Reply(body=None if user is None else _shown(user, is_super=is_super))


def list_users(
    broker: BrokerContext, request: Request[ListUsersRequestHeader, None]
) -> Reply[None, list[UserInfo]]:
    """Return the users whose names contain a string; without a body if there is none (code 3005)."""
    is_super = _is_administrator(broker, request)
    users = users_with(broker.users.table, request.header.filter)
    return Reply(body=[_shown(user, is_super=is_super) for user in users] or None)


async def put_policies(
    broker: BrokerContext, request: Request[CreateAclRequestHeader | UpdateAclRequestHeader, AclInfo]
) -> Reply[None, None]:
    """Merge policies into those of a user (codes 3006 and 3007)."""
    is_super = _is_administrator(broker, request)
    policies = request.body.policies
    if not policies:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
    name = _name(request.body.subject or request.header.subject)
    _check_target(broker, name, is_super=is_super)
    return await _change(broker, name, lambda table: with_policies(table, name, policies))


async def delete_policies(
    broker: BrokerContext, request: Request[DeleteAclRequestHeader, None]
) -> Reply[None, None]:
    """Delete the entry for a resource, or all policies of a user (code 3008)."""
    is_super = _is_administrator(broker, request)
    header = request.header
    name = _name(header.subject)
    _check_target(broker, name, is_super=is_super)
    return await _change(
        broker, name, lambda table: without_policies(table, name, header.policy_type, header.resource)
    )


def get_policies(broker: BrokerContext, request: Request[GetAclRequestHeader, None]) -> Reply[None, AclInfo]:
    """Return the policies of a user; without a body if it has none (code 3009)."""
    _is_administrator(broker, request)
    name = _name(request.header.subject)
    if name not in broker.users.table.users:
        raise Refusal(ResponseCode.NO_PERMISSION, "The subject is not exist.")
    return Reply(body=broker.users.table.acls.get(subject_of(name)))


def list_policies(
    broker: BrokerContext, request: Request[ListAclsRequestHeader, None]
) -> Reply[None, list[AclInfo]]:
    """Return the policies whose subjects and resources contain the given strings; without a body if there are
    none (code 3010).
    """
    _is_administrator(broker, request)
    header = request.header
    found = policies_with(broker.users.table, header.subject_filter, header.resource_filter)
    return Reply(body=found or None)


def _is_administrator(broker: BrokerContext, request: Request[Any, Any]) -> bool:
    """Return True if the caller may also administer super users. Raises Refusal if it may not administer
    users.
    """
    access = broker.access
    if access is None or access.is_administrator(request.session, request.command):
        return True
    if not access.authorizes:
        raise Refusal(ResponseCode.NO_PERMISSION, "The users can only be administered by super user")
    return False


def _check_target(broker: BrokerContext, name: str | None, *, is_super: bool) -> None:
    old = broker.users.table.users.get(name or "")
    if old is not None and old.user_type == SUPER and not is_super:
        raise Refusal(ResponseCode.NO_PERMISSION, ONLY_SUPER)


def _given(name: str | None, body: UserInfo) -> UserInfo:
    """Return the user in a request; its name is that of the header."""
    if not name:
        raise BLANK
    return replace(body, username=name)


def _is_super(user: UserInfo) -> bool:
    return (user.user_type or "").lower() == SUPER.lower()


def _shown(user: UserInfo, *, is_super: bool) -> UserInfo:
    return user if is_super or user.user_type != SUPER else replace(user, password=None)


def _name(subject: str | None) -> str:
    try:
        return name_of(subject)
    except UserError as error:
        raise Refusal(ResponseCode.NO_PERMISSION, str(error)) from None


async def _change(broker: BrokerContext, name: str | None, change: Change) -> Reply[None, None]:
    try:
        await broker.users.change(name or "", change)
    except UserError as error:
        raise Refusal(ResponseCode.NO_PERMISSION, str(error)) from None
    except AclError as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
    except OSError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the users are not saved: {error}") from None
    return Reply()
