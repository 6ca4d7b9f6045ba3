"""The connections of a broker. Addresses are "ip:port"; `version` is a number of `codec.versions`."""

from __future__ import annotations

import msgspec

from codec.bodies.base import Body, Int32, Int64
from codec.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData


class ClientConnection(Body, frozen=True):
    """One client (Java `body.Connection`). `language` is the name of a LanguageCode."""

    client_id: str = ""
    client_addr: str = ""
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Body, frozen=True):
    connection_set: list[ClientConnection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Body, frozen=True):
    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, frozen=True):
    """One producer client; `remote_ip` has the form /ip:port."""

    client_id: str = ""
    remote_ip: str | None = msgspec.field(default=None, name="remoteIP")
    language: str | None = None
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerTableInfo(Body, frozen=True):
    """The clients of each producer group."""

    data: dict[str, list[ProducerInfo]] = {}


class GetConsumerListByGroupResponseBody(Body, frozen=True):
    """The client ids of a group."""

    consumer_id_list: list[str] = []
