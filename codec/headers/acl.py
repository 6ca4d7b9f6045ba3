"""Headers of access control: accounts of 4.x (codes 50-53), users and policies of 5.x (3001-3010)."""

from __future__ import annotations

from rmqcli.codec.headers.base import Header


class CreateAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class CreateAclRequestHeader(Header, frozen=True, kw_only=True):
    subject: str | None = None


class CreateUserRequestHeader(Header, frozen=True, kw_only=True):
    username: str | None = None


class DeleteAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    access_key: str


class DeleteAclRequestHeader(Header, frozen=True, kw_only=True):
    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class DeleteUserRequestHeader(Header, frozen=True, kw_only=True):
    username: str | None = None


class GetAclRequestHeader(Header, frozen=True, kw_only=True):
    subject: str | None = None


class GetBrokerAclConfigResponseHeader(Header, frozen=True, kw_only=True):
    version: str
    broker_name: str
    broker_addr: str
    cluster_name: str
    all_acl_file_version: str | None = None


class GetUserRequestHeader(Header, frozen=True, kw_only=True):
    username: str | None = None


class ListAclsRequestHeader(Header, frozen=True, kw_only=True):
    subject_filter: str | None = None
    resource_filter: str | None = None


class ListUsersRequestHeader(Header, frozen=True, kw_only=True):
    filter: str | None = None


class UpdateAclRequestHeader(Header, frozen=True, kw_only=True):
    subject: str | None = None


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, frozen=True, kw_only=True):
    global_white_addrs: str
    acl_file_full_path: str | None = None


class UpdateUserRequestHeader(Header, frozen=True, kw_only=True):
    username: str | None = None
