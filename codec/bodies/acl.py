"""Access control: helper values of 4.x (Java `PlainAccessConfig`, …), users and policies of 5.x (codes
3001-3010)."""

# ruff: noqa: RUF012  msgspec copies an empty default for every value.
from __future__ import annotations

from codec.bodies.base import Body
from codec.bodies.config import DataVersion


class PlainAccessConfig(Body, frozen=True):
    """An account of 4.x. `topic_perms` and `group_perms` are texts such as "topicA=PUB|SUB"."""

    access_key: str | None = None
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None


class AclConfig(Body, frozen=True):
    """All accounts of 4.x, and the addresses that need none."""

    global_white_addrs: list[str] = []
    plain_access_configs: list[PlainAccessConfig] = []


class ClusterAclVersionInfo(Body, frozen=True):
    """Versions of a broker's ACL files; `all_acl_config_data_version`: path → version."""

    broker_name: str | None = None
    broker_addr: str | None = None
    acl_config_data_version: DataVersion | None = None
    all_acl_config_data_version: dict[str, DataVersion] = {}
    cluster_name: str | None = None


class UserInfo(Body, frozen=True):
    """A user of 5.x. `user_type`: Super, Normal; `user_status`: enable, disable."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class PolicyEntryInfo(Body, frozen=True):
    """A permission or denial: `resource` "Topic:x", `decision` Allow, Deny."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body, frozen=True):
    """`policy_type`: CUSTOM, DEFAULT."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(Body, frozen=True):
    """The policies of a subject, "User:name"."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None
