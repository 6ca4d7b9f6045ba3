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
from codec.headers.signed import (
    SIGNATURE,
    SignedOffsetUpdate,
    SignedPull,
    SignedSend,
    SignedSendV2,
)

INT32_DIGITS, INT64_DIGITS = 9, 18
"""Numbers of so many digits are in range."""

_replace: Final = msgspec.structs.replace


class Varying(NamedTuple):
    """`numbers` are the fields that are whole numbers, and the digits that they may have; `texts` are the
    others. `fill` makes a header like another one with the values of these fields, in this order, given how a
    text is decoded.

    `signed` is for requests with a signature, which covers all texts as they came."""

    header: type[Header]
    numbers: Mapping[str, int]
    texts: tuple[str, ...]
    fill: Callable[..., Header]
    signed: Varying | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return (*self.numbers, *self.texts)

    @property
    def is_signed(self) -> bool:
        """True if all ext fields of a request have a part in its signature."""
        return SIGNATURE in self.header.__struct_encode_fields__


_Text = Callable[[bytes], str]


# Written out: passed on as a dict, the names would cost as much as all the rest.
def _sent(like: Any, text: _Text, queue_id: bytes, born_timestamp: bytes, properties: bytes) -> Any:
    return _replace(
        like, queue_id=int(queue_id), born_timestamp=int(born_timestamp), properties=text(properties)
    )


def _sent_signed(
    like: Any, text: _Text, queue_id: bytes, born_timestamp: bytes, properties: bytes, signature: bytes
) -> Any:
    return _replace(
        like,
        queue_id=int(queue_id),
        born_timestamp=int(born_timestamp),
        properties=text(properties),
        signature=text(signature),
    )


def _pulled(like: Any, _text: _Text, queue_offset: bytes, commit_offset: bytes) -> Any:
    return _replace(like, queue_offset=int(queue_offset), commit_offset=int(commit_offset))


def _pulled_signed(
    like: Any, text: _Text, queue_offset: bytes, commit_offset: bytes, signature: bytes
) -> Any:
    return _replace(
        like, queue_offset=int(queue_offset), commit_offset=int(commit_offset), signature=text(signature)
    )


def _committed(like: Any, _text: _Text, commit_offset: bytes) -> Any:
    return _replace(like, commit_offset=int(commit_offset))


def _committed_signed(like: Any, text: _Text, commit_offset: bytes, signature: bytes) -> Any:
    return _replace(like, commit_offset=int(commit_offset), signature=text(signature))


class _Kind(NamedTuple):
    """A header, its signed form, and how each is filled."""

    header: type[Header]
    fill: Callable[..., Header]
    signed: type[Header]
    fill_signed: Callable[..., Header]

    def varying(self, numbers: Mapping[str, int], *texts: str) -> Varying:
        signed = Varying(self.signed, numbers, (*texts, "signature"), self.fill_signed)
        return Varying(self.header, numbers, texts, self.fill, signed)


_SENT: Final = {"queue_id": INT32_DIGITS, "born_timestamp": INT64_DIGITS}
_READ: Final = {"queue_offset": INT64_DIGITS, "commit_offset": INT64_DIGITS}
_SEND: Final = _Kind(SendMessageRequestHeader, _sent, SignedSend, _sent_signed)
_SEND_V2: Final = _Kind(SendMessageRequestHeaderV2, _sent, SignedSendV2, _sent_signed)
_PULL: Final = _Kind(PullMessageRequestHeader, _pulled, SignedPull, _pulled_signed)
_COMMIT: Final = _Kind(UpdateConsumerOffsetRequestHeader, _committed, SignedOffsetUpdate, _committed_signed)

VARYING: Final[Mapping[int, Varying]] = {
    R.SEND_MESSAGE: _SEND.varying(_SENT, "properties"),
    R.SEND_MESSAGE_V2: _SEND_V2.varying(_SENT, "properties"),
    R.SEND_BATCH_MESSAGE: _SEND_V2.varying(_SENT, "properties"),
    R.PULL_MESSAGE: _PULL.varying(_READ),
    R.LITE_PULL_MESSAGE: _PULL.varying(_READ),
    R.UPDATE_CONSUMER_OFFSET: _COMMIT.varying({"commit_offset": INT64_DIGITS}),
}
"""By request code."""
