"""Files that people edit, some of them on Windows: a byte order mark before the text is not part of it."""

from __future__ import annotations

from typing import Final

BYTE_ORDER_MARK: Final = "\ufeff".encode()
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


def unmarked(data: bytes) -> bytes:
    """Return the content of a file without a byte order mark. Raises ValueError for UTF-16, in which an
    editor may have saved it.
    """
    if data[:2] in _UTF16:
        raise ValueError("the text is in UTF-16: save it as UTF-8")
    return data.removeprefix(BYTE_ORDER_MARK)
