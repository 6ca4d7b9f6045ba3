"""Key-value entries: codes 100, 101, 102, 219; the running configuration: codes 318, 319 (Java
`DefaultRequestProcessor`)."""

from __future__ import annotations

import os
from functools import partial

from rmqcli.broker.config import config_properties, expand_path, update_config, warn_unknown
from rmqcli.broker.config.servers import FIXED_OF_NAME_SERVERS
from rmqcli.broker.errors import Refusal
from rmqcli.broker.namesrv.state import NameServerState
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.codec.bodies.route import KVTable
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.routes import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)


def put_kv(state: NameServerState, request: Request[PutKVConfigRequestHeader, None]) -> Reply[None, None]:
    """Store an entry (code 100)."""
    header = request.header
    state.barrier = partial(state.kv.put, header.namespace, header.key, header.value)
    return Reply()


def get_kv(
    state: NameServerState, request: Request[GetKVConfigRequestHeader, None]
) -> Reply[GetKVConfigResponseHeader, None]:
    """Return the value of an entry (code 101)."""
    header = request.header
    value = state.kv.get(header.namespace, header.key)
    if value is None:
        remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, {})
    return Reply(GetKVConfigResponseHeader(value=value))


def delete_kv(
    state: NameServerState, request: Request[DeleteKVConfigRequestHeader, None]
) -> Reply[None, None]:
    """Delete an entry (code 102)."""
    header = request.header
    state.barrier = partial(state.kv.delete, header.namespace, header.key)
    return Reply()


def list_kv(
    state: NameServerState, request: Request[GetKVListByNamespaceRequestHeader, None]
) -> Reply[None, KVTable]:
    """Return all entries of a namespace (code 219)."""
    namespace = request.header.namespace
    entries = state.kv.namespace(namespace)
    if entries is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return Reply(body=KVTable(table=entries))


def get_config(state: NameServerState, _request: Request[None, None]) -> Reply[None, dict[str, str]]:
    """Return every property that has a value (code 319)."""
    return Reply(body=told_properties(state))


def told_properties(state: NameServerState) -> dict[str, str]:
    """Return the properties in effect, with the actual address and absolute paths."""
    config = state.config
    home = config.rocketmq_home or os.environ.get("ROCKETMQ_HOME")
    paths = {
        "rocketmqHome": home,
        "kvConfigPath": config.kv_config_path,
        "configStorePath": config.config_store_path,
    }
    actual = {name: str(expand_path(path).absolute()) for name, path in paths.items() if path}
    return {**config_properties(config), **FIXED_OF_NAME_SERVERS, **actual, **state.address}


def set_config(state: NameServerState, request: Request[None, dict[str, str]]) -> Reply[None, None]:
    """Change properties and save them to `configStorePath` (code 318); unknown ones are logged."""
    update = update_config(state.config, request.body, told_properties(state))
    warn_unknown(update.unknown, f"request of {request.session.peer_text}")
    state.config = update.config
    state.barrier = state.save_config
    return Reply()
