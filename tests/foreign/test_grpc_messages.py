"""Our declaration of the messages of the gRPC service, beside the descriptors of the official Python client."""

from __future__ import annotations

import subprocess
from typing import Any

from google.protobuf import descriptor_pb2

from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import ENUMS
from tests.foreign.install import GRPC_PYTHON, install_grpc

DUMP = """
import sys
from rocketmq.grpc_protocol import definition_pb2, service_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
files = FileDescriptorSet()
for module in (definition_pb2, service_pb2):
    module.DESCRIPTOR.CopyToProto(files.file.add())
sys.stdout.buffer.write(files.SerializeToString())
"""
LITE = {"SyncLiteSubscriptionRequest", "SyncLiteSubscriptionResponse", "OffsetOption"}
"""What only lite topics use, which this service does not have."""


def fields(message: Any) -> dict[str, tuple[Any, ...]]:
    """The fields of a message, and of the entries of its maps."""
    own = {
        field.name: (
            field.number,
            field.type,
            field.label,
            field.type_name,
            field.proto3_optional,
            message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None,
        )
        for field in message.field
    }
    return own | {
        f"{nested.name}.{name}": value
        for nested in message.nested_type
        for name, value in fields(nested).items()
    }


def test_every_message_enumeration_and_method_is_that_of_the_official_client(online: None) -> None:
    install_grpc()
    done = subprocess.run([str(GRPC_PYTHON), "-c", DUMP], capture_output=True, check=True)
    official: Any = descriptor_pb2.FileDescriptorSet.FromString(done.stdout)
    theirs = {one.name: fields(one) for file in official.file for one in file.message_type}
    ours: Any = descriptor_pb2.FileDescriptorProto()
    messages.SendMessageRequest.DESCRIPTOR.file.CopyToProto(ours)
    assert {one.name: fields(one) for one in ours.message_type} == {
        name: value for name, value in theirs.items() if name not in LITE
    }
    enums = {
        one.name: {value.name: value.number for value in one.value}
        for file in official.file
        for one in file.enum_type
    }
    del enums["LiteSubscriptionAction"]
    assert {one.__name__: {value.name: int(value) for value in one} for one in ENUMS} == enums
    (service,) = (service for file in official.file for service in file.service)
    methods = {
        one.name: (one.input_type, one.output_type, one.client_streaming, one.server_streaming)
        for one in service.method
        if not one.name.endswith("LiteSubscription")
    }
    assert {
        one.name: (
            f".{one.request.DESCRIPTOR.full_name}",
            f".{one.reply.DESCRIPTOR.full_name}",
            one.streams_requests,
            one.streams_replies,
        )
        for one in messages.METHODS
    } == methods
