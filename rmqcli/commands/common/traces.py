"""What `--trace` could not do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Producer, PushConsumer

__all__ = ["warn_of_traces"]


def warn_of_traces(client: Producer | PushConsumer) -> None:
    """One line if traces were not written, with the reason and the remedy where there is one."""
    from rmqcli.client import NoRoute

    count, trouble = client.traces_dropped, client.trace_trouble
    if not count:
        return
    if isinstance(trouble, NoRoute):
        why = f"there is no topic {trouble.topic} (brokers have it with traceTopicEnable=true)"
    else:
        why = "too many at once" if trouble is None else str(trouble)
    warn(f"not written: {many(count, 'trace')}; {why}")
