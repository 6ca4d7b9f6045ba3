"""Headers of access control: accounts of 4.x (codes 50-53), users and policies of 5.x (3001-3010)."""

from __future__ import annotations

from codec.headers.base import Header


class CreateAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_ACL_CONFIG (50)."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class CreateAclRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_ACL (3006)."""

    subject: str | None = None


class CreateUserRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_USER (3001)."""

    username: str | None = None


class DeleteAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_ACL_CONFIG (51)."""

    access_key: str


class DeleteAclRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_DELETE_ACL (3008)."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class DeleteUserRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_DELETE_USER (3003)."""

    username: str | None = None


class GetAclRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_GET_ACL (3009)."""

    subject: str | None = None


class GetBrokerAclConfigResponseHeader(Header, frozen=True, kw_only=True):
    """GET_BROKER_CLUSTER_ACL_INFO (52)."""

    version: str
    broker_name: str
    broker_addr: str
    cluster_name: str
    all_acl_file_version: str | None = None


class GetUserRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_GET_USER (3004)."""

    username: str | None = None


class ListAclsRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_LIST_ACL (3010)."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class ListUsersRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_LIST_USER (3005)."""

    filter: str | None = None


class UpdateAclRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_UPDATE_ACL (3007)."""

    subject: str | None = None


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, frozen=True, kw_only=True):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53)."""

    global_white_addrs: str
    acl_file_full_path: str


class UpdateUserRequestHeader(Header, frozen=True, kw_only=True):
    """AUTH_UPDATE_USER (3002)."""

    username: str | None = None
