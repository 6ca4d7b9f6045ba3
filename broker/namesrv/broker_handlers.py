"""Registration of brokers: codes 103, 104, 205, 322, 327, and 904 of 5.x (Java `DefaultRequestProcessor`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rmqcli.broker.errors import Refusal
from rmqcli.broker.namesrv.kv_config import ORDER_TOPIC_CONFIG
from rmqcli.broker.namesrv.route_table import Broker, LiveBroker, Registered
from rmqcli.broker.namesrv.state import NameServerState
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.turns import LongWork, Steps, emptied_on_error, emptying
from rmqcli.codec.bodies.config import DataVersion, TopicConfig
from rmqcli.codec.bodies.registration import RegisterBrokerBody
from rmqcli.codec.bodies.route import KVTable
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.core.hashing import crc32
from rmqcli.codec.headers.routes import (
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

LONG_BODY = 64 * 1024
LONG_COMPRESSED = 1024
"""Bytes of a registration beyond which it is decoded in a thread and registered in turns."""
MOST_OF_CLIENT = 1024
"""Maximum number of brokers that one connection may register; a broker registers only itself."""

_log = logging.getLogger("rmqcli.broker.namesrv")


def register_broker(
    state: NameServerState, request: Request[RegisterBrokerRequestHeader, bytes]
) -> Answered[RegisterBrokerResponseHeader, KVTable | None]:
    """Register a broker with its topics, or renew its registration (code 103). Many topics are decoded in a
    thread."""
    header = request.header
    if header.body_crc32 and crc32(request.body) != header.body_crc32:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    state.watch(request.session)
    if (
        header.broker_addr not in (owned := state.routes.owned(request.session))
        and len(owned) >= MOST_OF_CLIENT
    ):
        remark = f"a connection can register {MOST_OF_CLIENT} brokers at most"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    if len(request.body) > (LONG_COMPRESSED if header.compressed else LONG_BODY):
        return _register_many(state, request)
    body, is_known = _decoded(request), _is_known(state, request)
    return _registered(state, request, is_known, state.routes.register(*_registration(state, request, body)))


async def _register_many(
    state: NameServerState, request: Request[RegisterBrokerRequestHeader, bytes]
) -> Reply[RegisterBrokerResponseHeader, KVTable | None]:
    body, is_known = await state.in_thread(_decoded, request), _is_known(state, request)
    turns, table = request.session.turns, body.topic_config_serialize_wrapper.topic_config_table
    async with emptied_on_error(turns, table):
        registered = await turns.run(state.routes.registering(*_registration(state, request, body)))
    await turns.run(emptying(table))
    return _registered(state, request, is_known, registered)


def _decoded(request: Request[RegisterBrokerRequestHeader, bytes]) -> RegisterBrokerBody:
    compressed, version = request.header.compressed, request.command.version
    return RegisterBrokerBody.of_request(request.body, compressed=compressed, version=version)


def _is_known(state: NameServerState, request: Request[RegisterBrokerRequestHeader, bytes]) -> bool:
    return state.routes.data_version(request.header.broker_addr) is not None


def _registration(
    state: NameServerState, request: Request[RegisterBrokerRequestHeader, bytes], body: RegisterBrokerBody
) -> tuple[Broker, LiveBroker, Iterable[TopicConfig], list[str]]:
    header, wrapper = request.header, body.topic_config_serialize_wrapper
    return (
        Broker(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr),
        LiveBroker(state.now_ms(), wrapper.data_version, request.session, header.ha_server_addr),
        wrapper.topic_config_table.values(),
        list(body.filter_server_list),
    )


def _registered(
    state: NameServerState,
    request: Request[RegisterBrokerRequestHeader, bytes],
    is_known: bool,
    registered: Registered,
) -> Reply[RegisterBrokerResponseHeader, KVTable | None]:
    header, session = request.header, request.session
    if not is_known:
        _log.info(
            "broker %s (%s) registered from %s", header.broker_name, header.broker_addr, session.peer_text
        )
    reply = RegisterBrokerResponseHeader(
        ha_server_addr=registered.ha_server_address, master_addr=registered.master_address
    )
    order = state.kv.namespace(ORDER_TOPIC_CONFIG)
    return Reply(reply, None if order is None else KVTable(table=order))


def unregister_broker(
    state: NameServerState, request: Request[UnRegisterBrokerRequestHeader, None]
) -> Answered[None, None]:
    """Remove a broker (code 104)."""
    return LongWork(_unregister(state, request.header))


def _unregister(state: NameServerState, header: UnRegisterBrokerRequestHeader) -> Steps:
    yield from state.routes.unregister(
        Broker(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr)
    )
    _log.info("broker %s (%s) unregistered", header.broker_name, header.broker_addr)
    return Reply


def query_data_version(
    state: NameServerState, request: Request[QueryDataVersionRequestHeader, DataVersion]
) -> Reply[QueryDataVersionResponseHeader, DataVersion | None]:
    """Compare the version of a broker's topics (code 322); an unchanged version counts as a heartbeat."""
    header = request.header
    changed = state.routes.is_changed(header.broker_addr, request.body)
    if not changed:
        state.routes.touch(header.broker_addr, state.now_ms())
    known = state.routes.data_version(header.broker_addr)
    return Reply(QueryDataVersionResponseHeader(changed=changed), known)


def broker_heartbeat(
    state: NameServerState, request: Request[BrokerHeartbeatRequestHeader, None]
) -> Reply[None, None]:
    """Note that a broker is alive (code 904, 5.x)."""
    state.routes.touch(request.header.broker_addr, state.now_ms())
    return Reply()


def wipe_write_permission(
    state: NameServerState, request: Request[WipeWritePermOfBrokerRequestHeader, None]
) -> Answered[WipeWritePermOfBrokerResponseHeader, None]:
    """Remove the write permission of a broker from all topics (code 205)."""
    return LongWork(_wipe(state, request.header.broker_name))


def _wipe(state: NameServerState, broker_name: str) -> Steps:
    count = yield from state.routes.wipe_write_permission(broker_name)
    return lambda: Reply(WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))


def add_write_permission(
    state: NameServerState, request: Request[AddWritePermOfBrokerRequestHeader, None]
) -> Answered[AddWritePermOfBrokerResponseHeader, None]:
    """Restore the write permission of a broker on all topics (code 327)."""
    return LongWork(_restore(state, request.header.broker_name))


def _restore(state: NameServerState, broker_name: str) -> Steps:
    count = yield from state.routes.add_write_permission(broker_name)
    return lambda: Reply(AddWritePermOfBrokerResponseHeader(add_topic_count=count))
