"""Name servers: configuration, key-value entries, and the write permission of brokers.

Name servers do not replicate, so every call goes to all of them, or to those in `servers`. Results and
failures are keyed by address.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rmqcli.client.admin.area import Area
from rmqcli.client.admin.values import TopicChange
from rmqcli.client.errors import ClientError, NotFound, valid
from rmqcli.codec.bodies.config import encode_properties_text
from rmqcli.codec.headers.routes import (
    AddWritePermOfBrokerRequestHeader,
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
)
from rmqcli.codec.operations.name_server import (
    DELETE_KV_CONFIG,
    GET_KV_CONFIG,
    GET_KVLIST_BY_NAMESPACE,
    GET_NAMESRV_CONFIG,
    PUT_KV_CONFIG,
    UPDATE_NAMESRV_CONFIG,
)
from rmqcli.codec.operations.routes import ADD_WRITE_PERM_OF_BROKER, WIPE_WRITE_PERM_OF_BROKER

Failures = dict[str, ClientError]


class NameServerAdmin(Area):
    @property
    def addresses(self) -> dict[str, str]:
        """Every name server of the client, keyed by its address."""
        return {address: address for address in self.instance.name_servers.addresses}

    def _chosen(self, servers: Collection[str]) -> dict[str, str]:
        return {address: address for address in servers} or self.addresses

    async def configs(self, *, failures: Failures | None = None) -> dict[str, dict[str, str]]:
        """Return the properties that have a value (code 319)."""
        return await self.bodies(self.addresses, GET_NAMESRV_CONFIG, None, failures)

    async def set_config(self, values: Mapping[str, str], *, servers: Collection[str] = ()) -> TopicChange:
        """Change properties (code 318). A name server ignores names that it does not know.

        Raises InvalidRequest for a name or value that is not a single line of text.
        """
        valid(encode_properties_text, values)
        return await self.change(self._chosen(servers), UPDATE_NAMESRV_CONFIG, None, dict(values))

    async def entries(self, namespace: str, *, failures: Failures | None = None) -> dict[str, dict[str, str]]:
        """Return the key-value entries of a namespace (code 219); empty if a server does not have it."""
        header = GetKVListByNamespaceRequestHeader(namespace=namespace)

        async def ask(address: str) -> dict[str, str]:
            try:
                answer = await self.instance.ask(address, GET_KVLIST_BY_NAMESPACE, header, None)
            except NotFound:
                return {}
            return dict(answer.body.table)

        return await self.ask_all(self.addresses, ask, failures)

    async def entry(
        self, namespace: str, key: str, *, failures: Failures | None = None
    ) -> dict[str, str | None]:
        """Return the value of an entry (code 101); None for a server that does not have it."""
        header = GetKVConfigRequestHeader(namespace=namespace, key=key)

        async def ask(address: str) -> str | None:
            try:
                return (await self.instance.ask(address, GET_KV_CONFIG, header, None)).header.value
            except NotFound:
                return None

        return await self.ask_all(self.addresses, ask, failures)

    async def put_entry(
        self, namespace: str, key: str, value: str, *, servers: Collection[str] = ()
    ) -> TopicChange:
        """Set an entry (code 100)."""
        header = PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
        return await self.change(self._chosen(servers), PUT_KV_CONFIG, header, None)

    async def delete_entry(self, namespace: str, key: str, *, servers: Collection[str] = ()) -> TopicChange:
        """Delete an entry (code 102). It is not an error if a server does not have it."""
        header = DeleteKVConfigRequestHeader(namespace=namespace, key=key)
        return await self.change(self._chosen(servers), DELETE_KV_CONFIG, header, None)

    async def wipe_write_permission(self, broker: str, *, failures: Failures | None = None) -> dict[str, int]:
        """Remove the write permission of a broker from all topics (code 205).

        Return the numbers of topics.
        """
        header = WipeWritePermOfBrokerRequestHeader(broker_name=broker)

        async def ask(address: str) -> int:
            answer = await self.instance.ask(address, WIPE_WRITE_PERM_OF_BROKER, header, None)
            return answer.header.wipe_topic_count

        return await self.ask_all(self.addresses, ask, failures)

    async def add_write_permission(self, broker: str, *, failures: Failures | None = None) -> dict[str, int]:
        """Restore the write permission of a broker on all topics (code 327). Return the numbers of topics."""
        header = AddWritePermOfBrokerRequestHeader(broker_name=broker)

        async def ask(address: str) -> int:
            answer = await self.instance.ask(address, ADD_WRITE_PERM_OF_BROKER, header, None)
            return answer.header.add_topic_count

        return await self.ask_all(self.addresses, ask, failures)
