"""The client library for threads: the clients of `rmqcli.client` with methods that block.

`send_soon` returns a `concurrent.futures.Future`. Listeners, checks and local transactions are plain
functions. Messages, settings, results and errors are those of `rmqcli.client`. The clients run in one
background thread; any number of threads may use them. Ctrl-C interrupts a blocking call. Clients that are
still open when the interpreter exits are closed.
"""

# ruff: noqa: I001 - sorting would split imports that contain "as"

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.client.sync.admin import Admin as Admin
    from rmqcli.client.sync.consumers import (
        LitePullConsumer as LitePullConsumer,
        PullConsumer as PullConsumer,
        PushConsumer as PushConsumer,
        SimpleConsumer as SimpleConsumer,
    )
    from rmqcli.client.sync.producer import (
        Producer as Producer,
        TransactionProducer as TransactionProducer,
    )
else:
    __all__, __getattr__ = lazy_names(__name__)
