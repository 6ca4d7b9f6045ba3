"""Requests of an administrator to one client as telemetry commands, and their answers as replies of remoting:
codes 307 and 309 (Java `GrpcClientChannel`, `ClientActivity`).

A command has a nonce, which the answer of the client repeats.
"""

from __future__ import annotations

from typing import Any, Final

from rmqcli.broker.errors import RemoteClosed
from rmqcli.broker.proxy.convert import message_of
from rmqcli.codec.bodies.running import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.operations.clients import CONSUME_MESSAGE_DIRECTLY, GET_CONSUMER_RUNNING_INFO
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand

STACK: Final = "thread_stack_trace"
RESULT: Final = "verify_message_result"
"""The fields of an answer."""
_RESULTS: Final[dict[int, CMResult]] = {
    Code.OK: CMResult.CR_SUCCESS,
    Code.FAILED_TO_CONSUME_MESSAGE: CMResult.CR_LATER,
    Code.MESSAGE_CORRUPTED: CMResult.CR_RETURN_NULL,
}


def question(request: RemotingCommand, nonce: str) -> tuple[str, Any]:
    """Return the field of the answer to a request, and its telemetry command. Raises RemoteClosed if there is
    none."""
    try:
        if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            verify = messages.VerifyMessageCommand(
                nonce=nonce, message=message_of(decode_record(request.body))
            )
            return RESULT, messages.TelemetryCommand(verify_message_command=verify)
        if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            if not GET_CONSUMER_RUNNING_INFO.decode_header(request).jstack_enable:
                raise RemoteClosed("a gRPC client reports only its thread stack, if jstackEnable=true")
            dump = messages.PrintThreadStackTraceCommand(nonce=nonce)
            return STACK, messages.TelemetryCommand(print_thread_stack_trace_command=dump)
    except CodecError as error:
        raise RemoteClosed(str(error)) from None
    raise RemoteClosed(f"a gRPC client does not answer code {request.code}")


def answer_key(command: Any) -> tuple[str, str] | None:
    """Return the field and the nonce of an answer; None for another command."""
    field = command.WhichOneof("command")
    return (field, getattr(command, field).nonce) if field in (STACK, RESULT) else None


def reply(request: RemotingCommand, answer: Any, spent_ms: int) -> RemotingCommand:
    """Return the equivalent reply of a remoting client. A status that contains neither the result of
    consumption nor thread stacks becomes a refusal.
    """
    code = answer.status.code
    if answer.HasField(STACK):
        # The status is optional, and the trace is an answer without it.
        if code == Code.OK or not answer.HasField("status"):
            info = ConsumerRunningInfo(jstack=answer.thread_stack_trace.thread_stack_trace)
            return request.reply(
                ResponseCode.SUCCESS, body=GET_CONSUMER_RUNNING_INFO.encode_reply(None, info)[1]
            )
    elif code in _RESULTS:
        result = ConsumeMessageDirectlyResult(
            consume_result=_RESULTS[code], remark="from gRPC client", spent_time_mills=spent_ms
        )
        return request.reply(
            ResponseCode.SUCCESS, body=CONSUME_MESSAGE_DIRECTLY.encode_reply(None, result)[1]
        )
    is_forbidden = code == Code.VERIFY_FIFO_MESSAGE_UNSUPPORTED
    refused = ResponseCode.NO_PERMISSION if is_forbidden else ResponseCode.SYSTEM_ERROR
    return request.reply(refused, f"the gRPC client answered with status {code}: {answer.status.message}")
