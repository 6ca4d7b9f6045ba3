"""How this client writes a request: language PYTHON, our version, JSON headers."""

from __future__ import annotations

from codec.codes import LanguageCode
from codec.remoting.frame import RemotingCommand

__all__ = ["command"]

_PYTHON = LanguageCode.PYTHON


def command(code: int, ext: dict[str, str] | None = None, body: bytes | memoryview = b"") -> RemotingCommand:
    return RemotingCommand(code, ext, body, 0, 0, None, _PYTHON)
