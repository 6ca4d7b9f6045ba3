"""Errors without a traceback: Spark shows what its Python workers print, and the telling line came last.

A worker that meets an error prints it and ends. If it is one of ours, Spark is told to print only the error
(SPARK_HIDE_TRACEBACK), which names the cause and the remedy; set that variable to nothing to see tracebacks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar, cast

from codec.errors import CodecError
from rmqcli.client import ClientError
from rmqcli.export.errors import ExportError

_WORKER = (
    *("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER_FACTORY_SECRET"),
    *("PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH"),
)
"""One of these is set in the processes that Spark starts."""
_HIDE = "SPARK_HIDE_TRACEBACK"

Function = TypeVar("Function", bound=Callable[..., Any])


@contextmanager
def plain_errors() -> Iterator[None]:
    try:
        yield
    except (ClientError, CodecError, ExportError, OSError):
        if any(name in os.environ for name in _WORKER):
            os.environ.setdefault(_HIDE, "1")
        raise


def plainly(function: Function) -> Function:
    """Make a function, or generator function, that Spark calls raise such errors plainly."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with plain_errors():
            return function(*arguments, **named)

    @wraps(function)
    def generate(*arguments: Any, **named: Any) -> Any:
        with plain_errors():
            return (yield from function(*arguments, **named))

    return cast(Function, generate if isgeneratorfunction(function) else call)
