"""Messages for the tests of the command line."""

from __future__ import annotations

from typing import Any

from rmqcli.codec.message import MessageExt


def stored(**changes: Any) -> MessageExt:
    """A stored message with nothing unusual, but for `changes`."""
    values: dict[str, Any] = {
        "topic": "orders",
        "queue_id": 3,
        "queue_offset": 17,
        "commit_log_offset": 4096,
        "flag": 0,
        "sys_flag": 0,
        "born_timestamp": 1714557600123,
        "born_host": "10.0.0.1:50000",
        "store_timestamp": 1714557600456,
        "store_host": "10.0.0.2:10911",
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body_crc": 7,
        "store_size": 200,
        "body": b"hello",
        "properties": {"UNIQ_KEY": "7F0000010001", "TAGS": "paid", "KEYS": "k1 k2", "shop": "berlin"},
        "broker_name": "broker-a",
    }
    return MessageExt(**values | changes)
