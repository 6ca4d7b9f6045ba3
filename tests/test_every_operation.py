"""Every operation has a handler at each end that receives it, or a reason that a broker gives for its refusal."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import rmqcli.broker.handlers
import rmqcli.broker.namesrv.node
import rmqcli.client
from rmqcli.broker.handlers import refused
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.operations import clients
from rmqcli.codec.operations.operation import AnyOperation
from rmqcli.codec.operations.permissions import RULES
from tests.broker.support import fake_broker
from tests.operations import OPERATIONS

REASONS = {OPERATIONS[code]: reason for code, reason in refused.REASONS.items()}


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
    handlers = served(rmqcli.broker.handlers.HANDLERS)
    assert names(received_by("B") - handlers - set(REASONS)) == []
    assert names(handlers - received_by("B")) == []


def test_access_control_has_a_rule_for_what_a_broker_serves() -> None:
    """Any account may send a request without a rule."""
    assert names(served(rmqcli.broker.handlers.HANDLERS - RULES.keys())) == []


def test_what_a_name_server_receives_has_a_handler() -> None:
    handlers = served(rmqcli.broker.namesrv.node.HANDLERS)
    assert names(received_by("N") - handlers) == []
    assert names(handlers - received_by("N")) == []


def test_what_a_client_receives_has_a_handler() -> None:
    handlers = registered_by_clients()
    assert clients.NOTIFY_CONSUMER_IDS_CHANGED in handlers
    assert names(received_by("C") - handlers) == []
    assert names(handlers - received_by("C")) == []


def test_a_reason_is_given_for_nothing_that_is_served() -> None:
    handlers = served(rmqcli.broker.handlers.HANDLERS) | served(rmqcli.broker.namesrv.node.HANDLERS)
    assert names(set(REASONS) & (handlers | registered_by_clients())) == []


async def test_the_reason_is_in_the_refusal(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as fake:
        client = fake.client()
        for operation, reason in REASONS.items():
            reply = await client.ask(operation.code)
            assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert reply.remark == f" request type {operation.code} not supported: {operation.name}: {reason}"


def test_an_operation_without_a_receiver_is_one_of_another_server() -> None:
    ends = received_by("B") | received_by("N") | received_by("C")
    others = {operation.direction for operation in OPERATIONS.values()} - {one.direction for one in ends}
    assert others == {"", "A→container", "A→Ctl", "B→Ctl", "B/A→Ctl", "C→FS"}
