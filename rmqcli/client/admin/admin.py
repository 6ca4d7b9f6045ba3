"""Administration: topics, groups, offsets, queries, brokers (Java `DefaultMQAdminExt`).

A call that goes to several brokers asks them all at once. Where part of them may fail, the result says which and why; when
all fail, the first error is raised.
"""

from __future__ import annotations

from rmqcli.client.admin.brokers import BrokerAdmin
from rmqcli.client.admin.queries import QueryAdmin
from rmqcli.client.admin.resets import ResetAdmin

__all__ = ["Admin"]


class Admin(ResetAdmin, QueryAdmin, BrokerAdmin):
    """All administration calls. `timeout` is seconds for one request; see InstanceOptions for the other options."""
