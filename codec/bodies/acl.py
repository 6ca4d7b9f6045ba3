"""Users and policies of access control (5.x)."""

from __future__ import annotations

from rmqcli.codec.bodies.base import Body


class UserInfo(Body, frozen=True):
    """A user. `user_type` is Super or Normal, `user_status` enable or disable."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class PolicyEntryInfo(Body, frozen=True):
    """A permission or a denial of a resource such as "Topic:x"; `decision` is Allow or Deny."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body, frozen=True):
    """The entries of one type of policy, CUSTOM or DEFAULT."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(Body, frozen=True):
    """The policies of a subject such as "User:name"."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None


class UserTable(Body, frozen=True):
    """The users of a broker by name, and the policies of subjects: the file users.json."""

    users: dict[str, UserInfo] = {}
    acls: dict[str, AclInfo] = {}
