"""The client library for asyncio: the clients of `rmqcli.client` for the tasks of a loop.

`send_soon` returns an `asyncio.Future`. Async listeners, checks and local transactions run as tasks of the
loop, plain ones in worker threads. Messages, settings, results and errors are those of `rmqcli.client`.

The clients run on the caller's loop, as a guest: trio's guest mode.
"""

# ruff: noqa: I001 - sorting would split imports that contain "as"

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.client.aio.admin import Admin as Admin
    from rmqcli.client.aio.consumers import (
        LitePullConsumer as LitePullConsumer,
        PullConsumer as PullConsumer,
        PushConsumer as PushConsumer,
        SimpleConsumer as SimpleConsumer,
    )
    from rmqcli.client.aio.producer import (
        Producer as Producer,
        TransactionProducer as TransactionProducer,
    )
else:
    __all__, __getattr__ = lazy_names(__name__)
