"""Key-value entries: codes 100, 101, 102, 219 (Java `DefaultRequestProcessor`)."""

from __future__ import annotations

from broker.errors import Refusal
from broker.namesrv.state import NameServerState
from broker.net.session import Session
from codec.bodies.base import encode_body
from codec.bodies.route import KVTable
from codec.codes import ResponseCode
from codec.headers.base import from_ext, to_ext
from codec.headers.kv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from codec.remoting.frame import RemotingCommand

__all__ = ["delete_kv", "get_kv", "list_kv", "put_kv"]


def put_kv(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(PutKVConfigRequestHeader, request.ext_fields)
    state.kv.put(header.namespace, header.key, header.value)
    return request.reply(ResponseCode.SUCCESS)


def get_kv(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(GetKVConfigRequestHeader, request.ext_fields)
    value = state.kv.get(header.namespace, header.key)
    if value is None:
        remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, {})
    return request.reply(ResponseCode.SUCCESS, ext_fields=to_ext(GetKVConfigResponseHeader(value=value)))


def delete_kv(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(DeleteKVConfigRequestHeader, request.ext_fields)
    state.kv.delete(header.namespace, header.key)
    return request.reply(ResponseCode.SUCCESS)


def list_kv(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(GetKVListByNamespaceRequestHeader, request.ext_fields)
    entries = state.kv.namespace(header.namespace)
    if entries is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
    return request.reply(ResponseCode.SUCCESS, body=encode_body(KVTable(table=entries)))
