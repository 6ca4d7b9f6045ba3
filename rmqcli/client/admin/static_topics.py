"""Static topics of 5.x: read their mappings (code 351), write them (513)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from codec.bodies.config import TopicConfigAndQueueMapping
from codec.headers.topics import GetTopicConfigRequestHeader
from codec.operations.topics import GET_TOPIC_CONFIG, UPDATE_AND_CREATE_STATIC_TOPIC
from rmqcli.client.admin.area import Area, gather_all
from rmqcli.client.admin.topics import topic_header
from rmqcli.client.errors import TopicNotFound


class StaticTopicAdmin(Area):
    async def mappings(self, topic: str) -> dict[str, TopicConfigAndQueueMapping]:
        """Settings and mapping of a topic on every master that has it. The first failure raises: a plan that
        lacks a broker would lose its queues.
        """
        masters = await self._admin.brokers.masters()
        header = GetTopicConfigRequestHeader(topic=topic, lo=True)  # without it, brokers leave out mappings

        async def ask(name: str) -> TopicConfigAndQueueMapping | None:
            try:
                return (await self.instance.ask(masters[name], GET_TOPIC_CONFIG, header, None)).body
            except TopicNotFound:
                return None

        found = await gather_all(masters, ask)
        return {name: config for name, config in found.items() if config is not None}

    async def put(self, mapped: Mapping[str, TopicConfigAndQueueMapping], *, force: bool = False) -> None:
        """Write settings and mapping to each of these masters, one after the other; the first failure raises.

        A broker refuses an older epoch, and changes of ranges that are fixed, unless `force`.
        """
        masters = await self._admin.brokers.masters(brokers=mapped)
        for name, config in mapped.items():
            header = replace(topic_header(config), force=force)
            detail = config.mapping_detail
            if detail is not None:
                await self.instance.ask(masters[name], UPDATE_AND_CREATE_STATIC_TOPIC, header, detail)
