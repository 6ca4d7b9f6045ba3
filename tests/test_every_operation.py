"""Every operation has a handler at each end that receives it, or a reason here why it has none yet."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import broker.handlers
import broker.namesrv.node
import rmqcli.client
from codec.codes import RequestCode
from codec.operations import acl, brokers, clients, messages, pop, topics
from codec.operations import groups as group_operations
from codec.operations.operation import AnyOperation, Operation
from tests.operations import OPERATIONS

ACCESS_CONTROL = "the broker has the accounts of 4.9, not the users and policies of 5.x"
POP = "POP consumption of 5.x does not exist yet"
REPLICATION = "replication and the controller of 5.x do not exist yet"
COLD_DATA = "5.x throttles reads of cold data; this broker does not"
ROCKSDB = "the store has no RocksDB"

ACCOUNTS: set[AnyOperation] = {
    acl.UPDATE_AND_CREATE_ACL_CONFIG,
    acl.DELETE_ACL_CONFIG,
    acl.GET_BROKER_CLUSTER_ACL_INFO,
    acl.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
}
PULLING: set[AnyOperation] = {
    pop.QUERY_ASSIGNMENT,
    pop.SET_MESSAGE_REQUEST_MODE,
    pop.GET_ALL_MESSAGE_REQUEST_MODE,
}
"""Every group pulls, and the broker says so."""


def all_of(area: ModuleType) -> list[AnyOperation]:
    return [value for value in vars(area).values() if isinstance(value, Operation)]


REASONS: dict[AnyOperation, str] = {
    **dict.fromkeys(set(all_of(acl)) - ACCOUNTS, ACCESS_CONTROL),
    **dict.fromkeys(set(all_of(pop)) - PULLING, POP),
    brokers.EXCHANGE_BROKER_HA_INFO: REPLICATION,
    brokers.RESET_MASTER_FLUSH_OFFSET: REPLICATION,
    brokers.GET_BROKER_EPOCH_CACHE: REPLICATION,
    brokers.NOTIFY_BROKER_ROLE_CHANGED: REPLICATION,
    brokers.NOTIFY_MIN_BROKER_ID_CHANGE: REPLICATION,
    brokers.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: COLD_DATA,
    brokers.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: COLD_DATA,
    brokers.SET_COMMITLOG_READ_MODE: COLD_DATA,
    brokers.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: ROCKSDB,
    brokers.EXPORT_ROCKSDB_CONFIG_TO_JSON: ROCKSDB,
    brokers.REGISTER_FILTER_SERVER: "4.9.8 has no processor for it: filter servers were removed",
    brokers.GET_TIMER_CHECK_POINT: "timer messages of 5.x do not exist yet",
    brokers.GET_TIMER_METRICS: "timer messages of 5.x do not exist yet",
    messages.RECALL_MESSAGE: "timer messages of 5.x do not exist yet",
    topics.UPDATE_AND_CREATE_STATIC_TOPIC: "static topics of 5.x do not exist yet",
    group_operations.QUERY_SUBSCRIPTION_BY_CONSUMER: "an admin operation of 5.x that nothing here sends yet",
    group_operations.UPDATE_AND_GET_GROUP_FORBIDDEN: "an admin operation of 5.x that nothing here sends yet",
}


def received_by(end: str) -> set[AnyOperation]:
    """The operations of which this letter is a receiver."""
    return {
        operation
        for operation in OPERATIONS.values()
        if end in operation.direction.replace("/", "→").split("→")[1:]
    }


def served(codes: Iterable[RequestCode]) -> set[AnyOperation]:
    return {OPERATIONS[code] for code in codes}


def registered_by_clients() -> set[AnyOperation]:
    """The operations in calls of `….register(OPERATION, …)` in the client library."""
    by_name = {operation.name: operation for operation in OPERATIONS.values()}
    (folder,) = rmqcli.client.__path__
    calls = [
        node
        for path in Path(folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
    ]
    names = {
        call.args[0].id
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "register"
        and isinstance(call.args[0], ast.Name)
    }
    return {by_name[name] for name in names if name in by_name}


def names(operations: Iterable[AnyOperation]) -> list[str]:
    return sorted(operation.name for operation in operations)


def test_what_a_broker_receives_has_a_handler_or_a_reason() -> None:
    handlers = served(broker.handlers.HANDLERS)
    assert names(received_by("B") - handlers - set(REASONS)) == []
    assert names(handlers - received_by("B")) == []


def test_what_a_name_server_receives_has_a_handler_or_a_reason() -> None:
    handlers = served(broker.namesrv.node.HANDLERS)
    assert names(received_by("N") - handlers - set(REASONS)) == []
    assert names(handlers - received_by("N")) == []


def test_what_a_client_receives_has_a_handler_or_a_reason() -> None:
    handlers = registered_by_clients()
    assert clients.NOTIFY_CONSUMER_IDS_CHANGED in handlers
    assert names(received_by("C") - handlers - set(REASONS)) == []
    assert names(handlers - received_by("C")) == []


def test_a_reason_is_given_for_nothing_that_is_served() -> None:
    handlers = served(broker.handlers.HANDLERS) | served(broker.namesrv.node.HANDLERS)
    assert names(set(REASONS) & (handlers | registered_by_clients())) == []


def test_an_operation_without_a_receiver_is_one_of_another_server() -> None:
    ends = received_by("B") | received_by("N") | received_by("C")
    others = {operation.direction for operation in OPERATIONS.values()} - {one.direction for one in ends}
    assert others == {"", "A→container", "A→Ctl", "B→Ctl", "B/A→Ctl", "C→FS"}
