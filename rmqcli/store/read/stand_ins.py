"""Messages that `rmq inspect salvage` puts in the place of lost ones: no broker stores one without a host."""

from __future__ import annotations

from codec.message import MessageExt

NO_HOST = "0.0.0.0:0"
"""The text of both hosts of a stand-in."""
LARGEST = 512
"""Bytes that no stand-in exceeds."""


def is_stand_in(message: MessageExt) -> bool:
    return message.store_host == message.born_host == NO_HOST
