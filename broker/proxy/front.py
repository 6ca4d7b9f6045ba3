"""The front: its port, and the functions of its calls by path."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import trio

from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.proxy import offsets, receiving, routes, sending, telemetry
from rmqcli.broker.proxy.answers import OK, StatusError, of_refusal, status
from rmqcli.broker.proxy.backend import Backend
from rmqcli.broker.proxy.calling import Caller, Front, caller_of, decoded
from rmqcli.broker.proxy.certificate import generated
from rmqcli.broker.proxy.clients import Clients
from rmqcli.broker.proxy.http2 import Call, Together, in_task
from rmqcli.broker.proxy.renewals import Renewals
from rmqcli.broker.proxy.server import GrpcServer
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.supervisor import Supervisor, open_services
from rmqcli.codec.errors import CodecError
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.proxy.framing import CallError, GrpcStatus

Unary = Callable[[Caller, Any], Awaitable[Any]]
_UNARY: dict[str, Unary] = {
    "QueryRoute": routes.query_route,
    "QueryAssignment": routes.query_assignment,
    "Heartbeat": telemetry.heartbeat,
    "NotifyClientTermination": telemetry.notify_client_termination,
    "SendMessage": sending.send_message,
    "EndTransaction": sending.end_transaction,
    "RecallMessage": sending.recall_message,
    "UpdateOffset": offsets.update_offset,
    "GetOffset": offsets.get_offset,
    "QueryOffset": offsets.query_offset,
    "AckMessage": receiving.ack_message,
    "ChangeInvisibleDuration": receiving.change_invisible_duration,
    "ForwardMessageToDeadLetterQueue": receiving.forward_to_dead_letters,
}
_STREAMING: dict[str, Unary] = {
    "PullMessage": offsets.pull_message,
    "ReceiveMessage": receiving.receive_message,
}

_log = logging.getLogger("rmqcli.broker.proxy")
_PROMPT = {"SendMessage", "AckMessage"}
"""Calls that get a task only if they must wait."""


class _Rpc(NamedTuple):
    request: Any
    reply: Any
    function: Callable[..., Awaitable[Any]]
    is_prompt: bool


_RPCS = {
    method.path: _Rpc(method.request, method.reply, function, method.name in _PROMPT)
    for method in messages.METHODS
    for function in [_UNARY.get(method.name) or _STREAMING.get(method.name)]
    if function is not None
}
_SENDS = next(method.path for method in messages.METHODS if method.name == "SendMessage")
_TELEMETRY = next(method.path for method in messages.METHODS if method.streams_requests)


async def serve(front: Front, call: Call) -> None:
    """Carry out a call. RocketMQ errors become a status in its reply, transport errors a gRPC status."""
    if call.path == _TELEMETRY:
        await in_task()
        await _serve_telemetry(front, call)
        return
    rpc = _RPCS.get(call.path)
    if rpc is None:
        raise CallError(GrpcStatus.UNIMPLEMENTED, f"method {call.path} is not implemented")
    data = await call.receive()
    if data is None:
        raise CallError(GrpcStatus.INTERNAL, "the client sent no request")
    request = decoded(rpc.request, data)
    if not rpc.is_prompt:
        await in_task()
    try:
        reply = await rpc.function(caller_of(front, call), request)
        if reply is None:
            return
        if not reply.HasField("status"):
            reply.status.CopyFrom(OK)
    except Exception as error:
        reply = rpc.reply(status=_failure(call, error))
    data = reply.SerializeToString()
    if not call.answer(data):
        await call.send(data)


async def _serve_telemetry(front: Front, call: Call) -> None:
    try:
        await telemetry.telemetry(caller_of(front, call))
    except (StatusError, Refusal) as error:
        await call.send(messages.TelemetryCommand(status=_failure(call, error)).SerializeToString())


def _failure(call: Call, error: Exception) -> Any:
    """Return the status for an error of a call; bugs are logged."""
    if isinstance(error, CallError):
        raise error
    if isinstance(error, Refusal):
        error = of_refusal(error)
    if isinstance(error, StatusError):
        return status(error.code, str(error))
    text = f"{call.session.peer_text}: {call.path}"
    if isinstance(error, CodecError):
        _log.info("%s: %s", text, error)
        return status(Code.BAD_REQUEST, str(error))
    _log.error("%s failed", text, exc_info=error)
    return status(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


@asynccontextmanager
async def open_front(
    backend: Backend,
    host: str,
    port: int,
    *,
    limits: ServerLimits,
    backlog: int,
    network: Network = TCP,
    supervisor: Supervisor | None = None,
    tls: Mapping[str, str] = {},
    in_thread: InThread = trio.to_thread.run_sync,
) -> AsyncIterator[int]:
    """Serve gRPC clients inside the block; yield the port.

    `tls` has TLS properties of a broker; without a certificate, one is generated. Raises OSError,
    ConfigError.
    """
    acceptor = TlsAcceptor(tls, in_thread=in_thread, generate=generated)
    await acceptor.load()
    listener = network.listen(host, port, backlog)
    try:
        front = Front(backend, Clients(backend.turns, backend.broker_name), Renewals(backend))
        server = GrpcServer(
            partial(serve, front),
            limits=limits,
            supervisor=supervisor,
            turns=backend.turns,
            tls=acceptor,
            together=Together(_SENDS, partial(sending.send_together, front)),
        )
        async with open_services(supervisor) as services:
            services.start("grpc clients", front.clients.run)
            services.start("grpc renewals", front.renewals.run)
            services.start("grpc releases", front.renewals.release_left)
            await services.nursery.start(server.serve, listener.sockets)
            listener.serve_with(server)
            yield listener.address[1]
    finally:
        listener.close()
