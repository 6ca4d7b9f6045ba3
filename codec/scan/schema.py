"""The Arrow and Parquet schema of every export. Needs PyArrow.

A row has the values of `codec.store.record.decode_record`. Times are UTC microseconds, as Spark needs.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

_ENCODED = ("topic", "broker_name", "tags", "born_host", "store_host")


@cache
def schema(*, encoded: bool = False, views: bool = False) -> pa.Schema:
    """Return the columns of an export; `msg_id` is the UNIQ_KEY, else the offset message id.

    With `encoded`, columns of few texts, and names of properties, are dictionary arrays. With `views`, bodies
    are views of the scanned buffer.
    """
    if views:
        plain = schema(encoded=encoded)
        return plain.set(plain.get_field_index("body"), pa.field("body", pa.binary_view()))
    if encoded:
        return _encoded(schema())
    moment = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("topic", pa.string()),
            ("broker_name", pa.string()),
            ("queue_id", pa.int32()),
            ("queue_offset", pa.int64()),
            ("commit_log_offset", pa.int64()),
            ("msg_id", pa.string()),
            ("offset_msg_id", pa.string()),
            ("tags", pa.string()),
            ("keys", pa.list_(pa.string())),
            ("properties", pa.map_(pa.string(), pa.string())),
            ("born_timestamp", moment),
            ("born_host", pa.string()),
            ("store_timestamp", moment),
            ("store_host", pa.string()),
            ("flag", pa.int32()),
            ("sys_flag", pa.int32()),
            ("reconsume_times", pa.int32()),
            ("prepared_transaction_offset", pa.int64()),
            ("store_size", pa.int32()),
            ("body_crc", pa.int32()),
            ("body", pa.binary()),
        ]
    )


def _encoded(plain: pa.Schema) -> pa.Schema:
    few = pa.dictionary(pa.int32(), pa.string())
    for name in _ENCODED:
        plain = plain.set(plain.get_field_index(name), pa.field(name, few))
    return plain.set(plain.get_field_index("properties"), pa.field("properties", pa.map_(few, pa.string())))
