"""The warning about traces that `--trace` could not write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Producer, PushConsumer


def warn_of_traces(client: Producer | PushConsumer) -> None:
    """Warn in one line if traces were not written, with the reason and the remedy."""
    from rmqcli.client import NoRoute

    count, trouble = client.traces_dropped, client.trace_trouble
    if not count:
        return
    if isinstance(trouble, NoRoute):
        why = f"topic {trouble.topic} not found (enable it with traceTopicEnable=true on the brokers)"
    else:
        why = "too many at once" if trouble is None else str(trouble)
    warn(f"{many(count, 'trace')} not written: {why}")
