"""Former names of administration calls. They work until 0.2, with a DeprecationWarning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from rmqcli.client.admin.admin import Admin

MOVED: Final = {
    "topics": "topics.names",
    "route": "topics.route",
    "topic_configs": "topics.settings",
    "topic_stats": "topics.stats",
    "topic_groups": "topics.groups",
    "topic_masters": "topics.masters",
    "create_topic": "topics.create",
    "update_topic": "topics.update",
    "delete_topic": "topics.delete",
    "groups": "groups.summaries",
    "group_names": "groups.names",
    "group_configs": "groups.settings",
    "group_configs_of_all": "groups.all_settings",
    "update_group": "groups.create",
    "change_group": "groups.update",
    "delete_group": "groups.delete",
    "delete_group_topics": "groups.delete_topics",
    "describe_group": "groups.describe",
    "offsets": "offsets.lags",
    "consume_stats": "offsets.stats",
    "min_offset": "offsets.min_offset",
    "max_offset": "offsets.max_offset",
    "search_offset": "offsets.search_offset",
    "earliest_store_time": "offsets.earliest_store_time",
    "committed": "offsets.committed",
    "commit": "offsets.commit",
    "places": "offsets.positions",
    "plan_reset": "offsets.plan_reset",
    "apply_reset": "offsets.reset",
    "consumer_connection": "clients.consumers",
    "producers": "clients.producers",
    "producers_of": "clients.producers_of",
    "running_info": "clients.running_info",
    "running_infos": "clients.running_infos",
    "queue_owners": "clients.queue_owners",
    "held_offsets": "clients.held_offsets",
    "consume_directly": "clients.consume_directly",
    "cluster_info": "brokers.cluster_info",
    "clusters": "brokers.summaries",
    "masters": "brokers.masters",
    "broker_runtime_info": "brokers.runtime_info",
    "query_by_key": "messages.query_by_key",
    "query_by_uniq_key": "messages.query_by_uniq_key",
    "query_by_id": "messages.query_by_id",
    "view_message": "messages.view",
}
"""Former method of `Admin` → area and method."""


def moved(admin: Admin, name: str) -> Callable[..., Any]:
    """Return the method that replaced `Admin.name`; warns the caller's caller."""
    area, _, method = MOVED[name].partition(".")
    warnings.warn(f"Admin.{name}() is now Admin.{area}.{method}()", DeprecationWarning, stacklevel=3)
    return getattr(getattr(admin, area), method)  # type: ignore[no-any-return]


class FormerMethod:
    """Mixin of an area that has the name of a former method: calling it is the method `former` of Admin."""

    former: ClassVar[str]
    _admin: Admin

    if not TYPE_CHECKING:

        def __call__(self, *args: Any, **options: Any) -> Any:
            return moved(self._admin, self.former)(*args, **options)
