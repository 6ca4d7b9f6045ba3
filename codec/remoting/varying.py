"""The fields in which the frequent requests of one client differ from one another.

A layout (`learned`) reads these; all other bytes of such a request are those of one before. `queue_id` of
a pull is not among them: Java's clients write it first, where a layout is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from codec.codes import RequestCode as R
from codec.headers.base import Header
from codec.headers.offsets import UpdateConsumerOffsetRequestHeader
from codec.headers.pull import PullMessageRequestHeader
from codec.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2

INT32_DIGITS, INT64_DIGITS = 9, 18
"""Numbers of so many digits are in range."""

_replace: Final = msgspec.structs.replace


class Varying(NamedTuple):
    """`numbers` are the fields that are whole numbers, and the digits that they may have; `text` is one
    more, or None. `fill` makes a header like another one with the values of these fields, in this order."""

    header: type[Header]
    numbers: Mapping[str, int]
    text: str | None
    fill: Callable[..., Header]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return (*self.numbers, *(() if self.text is None else (self.text,)))


# Written out: passed on as a dict, the names would cost as much as all the rest.
def _sent(like: Any, queue_id: int, born_timestamp: int, properties: str) -> Any:
    return _replace(like, queue_id=queue_id, born_timestamp=born_timestamp, properties=properties)


def _pulled(like: Any, queue_offset: int, commit_offset: int) -> Any:
    return _replace(like, queue_offset=queue_offset, commit_offset=commit_offset)


def _committed(like: Any, commit_offset: int) -> Any:
    return _replace(like, commit_offset=commit_offset)


def _send(header: type[Header]) -> Varying:
    numbers = {"queue_id": INT32_DIGITS, "born_timestamp": INT64_DIGITS}
    return Varying(header, numbers, "properties", _sent)


_PULL: Final = Varying(
    PullMessageRequestHeader, {"queue_offset": INT64_DIGITS, "commit_offset": INT64_DIGITS}, None, _pulled
)

VARYING: Final[Mapping[int, Varying]] = {
    R.SEND_MESSAGE: _send(SendMessageRequestHeader),
    R.SEND_MESSAGE_V2: _send(SendMessageRequestHeaderV2),
    R.SEND_BATCH_MESSAGE: _send(SendMessageRequestHeaderV2),
    R.PULL_MESSAGE: _PULL,
    R.LITE_PULL_MESSAGE: _PULL,
    R.UPDATE_CONSUMER_OFFSET: Varying(
        UpdateConsumerOffsetRequestHeader, {"commit_offset": INT64_DIGITS}, None, _committed
    ),
}
"""By request code."""
