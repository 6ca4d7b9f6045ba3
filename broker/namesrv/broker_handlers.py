"""Brokers that come, stay and go: codes 103, 104, 205, 322, 327, and 904 of 5.x (Java `DefaultRequestProcessor`)."""

from __future__ import annotations

import logging

from broker.errors import Refusal
from broker.namesrv.kv_config import ORDER_TOPIC_CONFIG
from broker.namesrv.route_table import Broker, LiveBroker
from broker.namesrv.state import NameServerState
from broker.net.session import Session
from codec.bodies.base import decode_body, encode_body
from codec.bodies.config import DataVersion, TopicConfigSerializeWrapper
from codec.bodies.registration import RegisterBrokerBody
from codec.bodies.route import KVTable
from codec.codes import ResponseCode
from codec.hashing import crc32
from codec.headers.base import from_ext, to_ext
from codec.headers.routes import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from codec.remoting.frame import RemotingCommand

__all__ = [
    "add_write_permission",
    "broker_heartbeat",
    "query_data_version",
    "register_broker",
    "unregister_broker",
    "wipe_write_permission",
]

_log = logging.getLogger("broker.namesrv")

FULL_BODY_VERSION = 37  # V3_0_11: older brokers send a bare TopicConfigSerializeWrapper


def register_broker(state: NameServerState, session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(RegisterBrokerRequestHeader, request.ext_fields)
    if header.body_crc32 and crc32(request.body) != header.body_crc32:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    body = _registration(request, header.compressed)
    wrapper = body.topic_config_serialize_wrapper
    known = state.routes.data_version(header.broker_addr) is not None
    registered = state.routes.register(
        Broker(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr),
        LiveBroker(state.now_ms(), wrapper.data_version, session, header.ha_server_addr),
        wrapper.topic_config_table.values(),
        list(body.filter_server_list),
    )
    state.watch(session)
    if not known:
        _log.info(
            "broker %s (%s) registered from %s", header.broker_name, header.broker_addr, session.peer_text
        )
    reply = RegisterBrokerResponseHeader(
        ha_server_addr=registered.ha_server_address, master_addr=registered.master_address
    )
    order = state.kv.namespace(ORDER_TOPIC_CONFIG)
    order_body = b"" if order is None else encode_body(KVTable(table=order))
    return request.reply(ResponseCode.SUCCESS, ext_fields=to_ext(reply), body=order_body)


def unregister_broker(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(UnRegisterBrokerRequestHeader, request.ext_fields)
    state.routes.unregister(
        Broker(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr)
    )
    _log.info("broker %s (%s) unregistered", header.broker_name, header.broker_addr)
    return request.reply(ResponseCode.SUCCESS)


def query_data_version(
    state: NameServerState, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    header = from_ext(QueryDataVersionRequestHeader, request.ext_fields)
    changed = state.routes.is_changed(header.broker_addr, decode_body(DataVersion, request.body))
    if not changed:
        state.routes.touch(header.broker_addr, state.now_ms())
    known = state.routes.data_version(header.broker_addr)
    return request.reply(
        ResponseCode.SUCCESS,
        ext_fields=to_ext(QueryDataVersionResponseHeader(changed=changed)),
        body=b"" if known is None else encode_body(known),
    )


def broker_heartbeat(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(BrokerHeartbeatRequestHeader, request.ext_fields)
    state.routes.touch(header.broker_addr, state.now_ms())
    return request.reply(ResponseCode.SUCCESS)


def wipe_write_permission(
    state: NameServerState, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    header = from_ext(WipeWritePermOfBrokerRequestHeader, request.ext_fields)
    count = state.routes.wipe_write_permission(header.broker_name)
    reply = WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count)
    return request.reply(ResponseCode.SUCCESS, ext_fields=to_ext(reply))


def add_write_permission(
    state: NameServerState, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    header = from_ext(AddWritePermOfBrokerRequestHeader, request.ext_fields)
    count = state.routes.add_write_permission(header.broker_name)
    reply = AddWritePermOfBrokerResponseHeader(add_topic_count=count)
    return request.reply(ResponseCode.SUCCESS, ext_fields=to_ext(reply))


def _registration(request: RemotingCommand, compressed: bool) -> RegisterBrokerBody:
    """The body in its three forms; a broker without topics may send none."""
    if not request.body:
        return RegisterBrokerBody()
    if request.version < FULL_BODY_VERSION:
        wrapper = decode_body(TopicConfigSerializeWrapper, request.body)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
    return RegisterBrokerBody.decode(request.body, compressed=compressed)
