"""Administration of 4.9 accounts: codes 50 to 53 (Java class `AdminBrokerProcessor`)."""

from __future__ import annotations

from rmqcli.broker.auth.changes import NoAccount, delete_account, put_account, set_white
from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.codec.acl.account_file import FileVersion
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.acl import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from rmqcli.codec.remoting.json_header import write_json

OFF = "access control is off (aclEnable=false)"


def _access(broker: BrokerContext, code: int) -> AccountFiles:
    if broker.access is None or broker.access.files is None:
        raise Refusal(code, OFF)
    return broker.access.files


def _listed(text: str | None) -> list[str] | None:
    """Return the entries of a comma-separated list; None if it is not given."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


async def update_account(
    broker: BrokerContext, request: Request[CreateAccessConfigRequestHeader, None]
) -> Reply[None, None]:
    """Create an account, or change the given fields of one (code 50); `admin` is false if it is not given."""
    failed, header = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, request.header
    access = _access(broker, failed)
    given = {
        "accessKey": header.access_key,
        "secretKey": header.secret_key,
        "whiteRemoteAddress": header.white_remote_address,
        "admin": header.admin,
        "defaultTopicPerm": header.default_topic_perm,
        "defaultGroupPerm": header.default_group_perm,
        "topicPerms": _listed(header.topic_perms),
        "groupPerms": _listed(header.group_perms),
    }
    try:
        await put_account(access, given, broker.now_ms())
    except (AclError, OSError) as error:
        raise Refusal(failed, str(error)) from None
    return Reply()


async def remove_account(
    broker: BrokerContext, request: Request[DeleteAccessConfigRequestHeader, None]
) -> Reply[None, None]:
    """Delete an account (code 51)."""
    failed, key = ResponseCode.DELETE_ACL_CONFIG_FAILED, request.header.access_key
    access = _access(broker, failed)
    try:
        await delete_account(access, key, broker.now_ms())
    except NoAccount:
        remark = f"The accesskey[{key}] corresponding to accessConfig has been deleted failed."
        raise Refusal(failed, remark) from None
    except (AclError, OSError) as error:
        raise Refusal(failed, str(error)) from None
    return Reply()


async def update_white_addresses(
    broker: BrokerContext, request: Request[UpdateGlobalWhiteAddrsConfigRequestHeader, None]
) -> Reply[None, None]:
    """Replace the global whitelist of a file (code 53)."""
    failed, header = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, request.header
    access = _access(broker, failed)
    addresses = _listed(header.global_white_addrs) or []
    try:
        await set_white(access, addresses, header.acl_file_full_path or "", broker.now_ms())
    except (AclError, OSError) as error:
        remark = f"The globalWhiteAddresses[{header.global_white_addrs}] has been updated failed. {error}"
        raise Refusal(failed, remark) from None
    return Reply()


def account_files(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[GetBrokerAclConfigResponseHeader, None]:
    """Return the versions of the files (code 52)."""
    access = _access(broker, ResponseCode.SYSTEM_ERROR)
    versions = {file.path: file.version for file in access.current.files}
    first = versions.get(str(access.default), FileVersion())
    header = GetBrokerAclConfigResponseHeader(
        version=write_json(first).decode(),
        broker_name=broker.name,
        broker_addr=broker.address,
        cluster_name=broker.config.broker_cluster_name,
        all_acl_file_version=write_json(versions).decode(),
    )
    return Reply(header)
