"""Protobuf bodies: types, wrong and hostile bodies, and descriptor sets that are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor as F
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform.decoder import decoded
from rmqcli.export.transform.protobuf import ProtobufBodies, message_class
from tests.seeds import times

REPEATED, REQUIRED = F.LABEL_REPEATED, F.LABEL_REQUIRED
Change = Callable[[Any], None]


def field(message: Any, name: str, kind: int, type_name: str = "", label: int = F.LABEL_OPTIONAL) -> Any:
    return message.field.add(
        name=name, number=len(message.field) + 1, type=kind, type_name=type_name or None, label=label
    )


def descriptor_set(change: Change = lambda file: None, *, imports: bool = True) -> bytes:
    """Returns what protoc writes for the file of `shop.Order`, after a change."""
    files = descriptor_pb2.FileDescriptorSet()
    if imports:
        timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=4)
    order = file.message_type.add(name="Order")
    field(order, "id", F.TYPE_UINT64)
    field(order, "count", F.TYPE_UINT32)
    field(order, "change", F.TYPE_SINT32)
    field(order, "note", F.TYPE_STRING).proto3_optional = True
    field(order, "raw", F.TYPE_BYTES)
    field(order, "state", F.TYPE_ENUM, ".shop.State")
    field(order, "states", F.TYPE_ENUM, ".shop.State", REPEATED)
    field(order, "at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    field(order, "line", F.TYPE_MESSAGE, ".shop.Order.Line")
    field(order, "lines", F.TYPE_MESSAGE, ".shop.Order.Line", REPEATED)
    field(order, "more", F.TYPE_MESSAGE, ".shop.Order.MoreEntry", REPEATED)
    order.field[3].oneof_index = 0
    order.oneof_decl.add(name="_note")
    field(order.nested_type.add(name="Line"), "sku", F.TYPE_STRING)
    entry = order.nested_type.add(name="MoreEntry")
    entry.options.map_entry = True
    field(entry, "key", F.TYPE_INT32)
    field(entry, "value", F.TYPE_MESSAGE, ".shop.Order.Line")
    change(file)
    return bytes(files.SerializeToString())


def values(schema: bytes, *bodies: bytes, name: str = "shop.Order") -> tuple[list[Any], dict[int, str]]:
    found, reasons = decoded(ProtobufBodies(schema, name), bodies)
    found.validate(full=True)
    return found.to_pylist(), reasons


def order(**fields: Any) -> Any:
    return message_class(descriptor_set(), "shop.Order")(**fields)


EMPTY: dict[str, Any] = {
    "id": Decimal(0),
    "count": 0,
    "change": 0,
    "note": None,
    "raw": b"",
    "state": "OPEN",
    "states": [],
    "at": None,
    "line": None,
    "lines": [],
    "more": [],
}


def test_every_type() -> None:
    message = order(
        id=2**64 - 1, count=2**32 - 1, change=-3, note="", raw=b"\xff", state=4, states=[4, 9], line={}
    )
    message.at.FromDatetime(datetime(2026, 11, 23, 12, 0, 0, 7, UTC))
    message.lines.add(sku="ü")
    message.more[9].sku = "nine"
    message.more[-1].sku = "minus"
    found, reasons = values(descriptor_set(), message.SerializeToString(), b"")
    assert reasons == {}
    assert found == [
        {
            "id": Decimal(2**64 - 1),
            "count": 2**32 - 1,
            "change": -3,
            "note": "",
            "raw": b"\xff",
            "state": "PAID",
            "states": ["PAID", "9"],
            "at": datetime(2026, 11, 23, 12, 0, 0, 7, UTC),
            "line": {"sku": ""},
            "lines": [{"sku": "ü"}],
            "more": [(-1, {"sku": "minus"}), (9, {"sku": "nine"})],
        },
        EMPTY,
    ]
    kind = ProtobufBodies(descriptor_set(), "shop.Order").type
    assert (kind.field("id").type, kind.field("count").type) == (pa.decimal128(20, 0), pa.int64())
    assert values(descriptor_set(), b"\x0a\x01s", name="shop.Order.Line")[0] == [{"sku": "s"}]


def far(seconds: int) -> bytes:
    message = order()
    message.at.seconds = seconds
    return bytes(message.SerializeToString())


NOT_ONE = "not a message of this type"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x08", NOT_ONE),
        (b"\x22\xff\xff\xff\xff\x07a", NOT_ONE),
        (b"\x22\x01\xff", NOT_ONE),
        (b"\xff" * 20, NOT_ONE),
        (b"\x13" * 200, NOT_ONE),
        (far(2**62), "a value does not fit its type"),
    ],
    ids=["half", "long", "not text", "varint", "groups", "far"],
)
def test_a_wrong_body_between_right_ones(body: bytes, reason: str) -> None:
    found, reasons = values(descriptor_set(), b"\x10\x05", body, b"\x10\x06")
    assert [one and one["count"] for one in found] == [5, None, 6]
    assert reasons == {1: reason}


@settings(max_examples=times(10))
@given(st.binary(max_size=60))
def test_any_body(body: bytes) -> None:
    found, reasons = values(descriptor_set(), body, b"")
    assert (found[0] is None, found[1]) == (0 in reasons, EMPTY)


def test_required_fields() -> None:
    def old(file: Any) -> None:
        file.syntax = "proto2"
        field(file.message_type.add(name="Old"), "a", F.TYPE_STRING, label=REQUIRED)

    def named(file: Any) -> None:
        del file.message_type[:]
        old(file)

    assert values(descriptor_set(named), b"", b"\x0a\x01\xff", name="shop.Old")[1] == {
        0: "a required field is missing",
        1: "a value does not fit its type",
    }


def recursive(file: Any) -> None:
    field(file.message_type[0].nested_type[0], "inner", F.TYPE_MESSAGE, ".shop.Order.Line", REPEATED)


def without_fields(file: Any) -> None:
    del file.message_type[0].nested_type[0].field[:]


@pytest.mark.parametrize(
    ("schema", "name", "said"),
    [
        (
            descriptor_set(),
            "shop.None",
            "has no message shop.None; it has google.protobuf.Timestamp, shop.Order",
        ),
        (b"", "shop.Order", "has no message shop.Order; it has none"),
        (b"syntax = 'proto3';", "shop.Order", "not a descriptor set: protoc --include_imports"),
        (descriptor_set(recursive), "shop.Order", "message shop.Order.Line contains itself"),
        (descriptor_set(without_fields), "shop.Order", "message shop.Order.Line has no fields"),
    ],
    ids=["name", "empty", "text", "recursive", "without fields"],
)
def test_refused_schemas(schema: bytes, name: str, said: str) -> None:
    with pytest.raises(SchemaError) as error:
        ProtobufBodies(schema, name)
    assert str(error.value).startswith(said)


def test_a_set_without_what_it_imports() -> None:
    with pytest.raises(
        SchemaError, match=r"(?s)timestamp.proto.*protoc --include_imports adds imported files"
    ):
        ProtobufBodies(descriptor_set(imports=False), "shop.Order")
