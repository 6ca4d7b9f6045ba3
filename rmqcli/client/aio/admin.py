"""Administration for asyncio."""

from __future__ import annotations

from typing import Generic, TypeVar, Unpack

from rmqcli.client.admin.access import AccessAdmin as TrioAccessAdmin
from rmqcli.client.admin.admin import Admin as TrioAdmin
from rmqcli.client.admin.area import Area as TrioArea
from rmqcli.client.admin.brokers import BrokerAdmin as TrioBrokerAdmin
from rmqcli.client.admin.clients import ClientAdmin as TrioClientAdmin
from rmqcli.client.admin.controllers import ControllerAdmin as TrioControllerAdmin
from rmqcli.client.admin.controllers import ReplicationAdmin as TrioReplicationAdmin
from rmqcli.client.admin.groups import GroupAdmin as TrioGroupAdmin
from rmqcli.client.admin.messages import MessageAdmin as TrioMessageAdmin
from rmqcli.client.admin.name_servers import NameServerAdmin as TrioNameServerAdmin
from rmqcli.client.admin.offsets import OffsetAdmin as TrioOffsetAdmin
from rmqcli.client.admin.topics import StaticTopicAdmin as TrioStaticTopicAdmin
from rmqcli.client.admin.topics import TopicAdmin as TrioTopicAdmin
from rmqcli.client.admin.upkeep import UpkeepAdmin as TrioUpkeepAdmin
from rmqcli.client.aio.guest import Guest
from rmqcli.client.aio.methods import Client, hosted, relayed
from rmqcli.client.instance import InstanceOptions

AreaT = TypeVar("AreaT", bound=TrioArea)


class Area(Generic[AreaT]):
    """Base of the areas: calls go through the Admin."""

    def __init__(self, admin: Admin, area: AreaT) -> None:
        self._admin = admin
        self._trio = area

    @property
    def _guest(self) -> Guest:
        return self._admin._guest


class TopicAdmin(Area[TrioTopicAdmin]):
    __doc__ = TrioTopicAdmin.__doc__

    names = hosted(TrioTopicAdmin.names)
    route = hosted(TrioTopicAdmin.route)
    masters = hosted(TrioTopicAdmin.masters)
    holders = hosted(TrioTopicAdmin.holders)
    hidden = hosted(TrioTopicAdmin.hidden)
    settings = hosted(TrioTopicAdmin.settings)
    all_settings = hosted(TrioTopicAdmin.all_settings)
    stats = hosted(TrioTopicAdmin.stats)
    timers = hosted(TrioTopicAdmin.timers)
    entries = hosted(TrioTopicAdmin.entries)
    groups = hosted(TrioTopicAdmin.groups)
    create = hosted(TrioTopicAdmin.create)
    order_layout = hosted(TrioTopicAdmin.order_layout)
    put = hosted(TrioTopicAdmin.put)
    put_layout = hosted(TrioTopicAdmin.put_layout)
    update = hosted(TrioTopicAdmin.update)
    delete = hosted(TrioTopicAdmin.delete)
    try_delete = hosted(TrioTopicAdmin.try_delete)


class GroupAdmin(Area[TrioGroupAdmin]):
    __doc__ = TrioGroupAdmin.__doc__

    all_settings = hosted(TrioGroupAdmin.all_settings)
    names = hosted(TrioGroupAdmin.names)
    with_offsets_on = hosted(TrioGroupAdmin.with_offsets_on)
    summaries = hosted(TrioGroupAdmin.summaries)
    settings = hosted(TrioGroupAdmin.settings)
    holders = hosted(TrioGroupAdmin.holders)
    create = hosted(TrioGroupAdmin.create)
    update = hosted(TrioGroupAdmin.update)
    delete = hosted(TrioGroupAdmin.delete)
    delete_topics = hosted(TrioGroupAdmin.delete_topics)
    describe = hosted(TrioGroupAdmin.describe)
    check_known = hosted(TrioGroupAdmin.check_known)
    set_mode = hosted(TrioGroupAdmin.set_mode)


class OffsetAdmin(Area[TrioOffsetAdmin]):
    __doc__ = TrioOffsetAdmin.__doc__

    stats = hosted(TrioOffsetAdmin.stats)
    next_messages = hosted(TrioOffsetAdmin.next_messages)
    lags = hosted(TrioOffsetAdmin.lags)
    stats_on = hosted(TrioOffsetAdmin.stats_on)
    with_subscribed = hosted(TrioOffsetAdmin.with_subscribed)
    none_committed = relayed(TrioOffsetAdmin.none_committed)
    lags_of = hosted(TrioOffsetAdmin.lags_of)
    unread = hosted(TrioOffsetAdmin.unread)
    beyond = hosted(TrioOffsetAdmin.beyond)
    positions = hosted(TrioOffsetAdmin.positions)
    plan_reset = hosted(TrioOffsetAdmin.plan_reset)
    reset = hosted(TrioOffsetAdmin.reset)
    min_offset = hosted(TrioOffsetAdmin.min_offset)
    max_offset = hosted(TrioOffsetAdmin.max_offset)
    search_offset = hosted(TrioOffsetAdmin.search_offset)
    earliest_store_time = hosted(TrioOffsetAdmin.earliest_store_time)
    committed = hosted(TrioOffsetAdmin.committed)
    commit = hosted(TrioOffsetAdmin.commit)


class ClientAdmin(Area[TrioClientAdmin]):
    __doc__ = TrioClientAdmin.__doc__

    consumers = hosted(TrioClientAdmin.consumers)
    connections = hosted(TrioClientAdmin.connections)
    connected = hosted(TrioClientAdmin.connected)
    producers = hosted(TrioClientAdmin.producers)
    producers_of = hosted(TrioClientAdmin.producers_of)
    running_info = hosted(TrioClientAdmin.running_info)
    running_infos = hosted(TrioClientAdmin.running_infos)
    queue_owners = hosted(TrioClientAdmin.queue_owners)
    activity = hosted(TrioClientAdmin.activity)
    activities = hosted(TrioClientAdmin.activities)
    consumer_ids = hosted(TrioClientAdmin.consumer_ids)
    held_offsets = hosted(TrioClientAdmin.held_offsets)
    consume_directly = hosted(TrioClientAdmin.consume_directly)


class BrokerAdmin(Area[TrioBrokerAdmin]):
    __doc__ = TrioBrokerAdmin.__doc__

    cluster_info = hosted(TrioBrokerAdmin.cluster_info)
    masters = hosted(TrioBrokerAdmin.masters)
    seats = hosted(TrioBrokerAdmin.seats)
    runtime_info = hosted(TrioBrokerAdmin.runtime_info)
    runtime_infos = hosted(TrioBrokerAdmin.runtime_infos)
    lags = hosted(TrioBrokerAdmin.lags)
    statistics = hosted(TrioBrokerAdmin.statistics)
    configs = hosted(TrioBrokerAdmin.configs)
    set_config = hosted(TrioBrokerAdmin.set_config)
    advance_clock = hosted(TrioBrokerAdmin.advance_clock)
    clean = hosted(TrioBrokerAdmin.clean)
    summaries = hosted(TrioBrokerAdmin.summaries)


class MessageAdmin(Area[TrioMessageAdmin]):
    __doc__ = TrioMessageAdmin.__doc__

    query_by_key = hosted(TrioMessageAdmin.query_by_key)
    query_by_uniq_key = hosted(TrioMessageAdmin.query_by_uniq_key)
    query_by_id = hosted(TrioMessageAdmin.query_by_id)
    query_everywhere = hosted(TrioMessageAdmin.query_everywhere)
    view = hosted(TrioMessageAdmin.view)
    view_all = hosted(TrioMessageAdmin.view_all)


class NameServerAdmin(Area[TrioNameServerAdmin]):
    __doc__ = TrioNameServerAdmin.__doc__

    @property
    def addresses(self) -> dict[str, str]:
        """Every name server of the client, keyed by its address."""
        return self._trio.addresses

    configs = hosted(TrioNameServerAdmin.configs)
    set_config = hosted(TrioNameServerAdmin.set_config)
    entries = hosted(TrioNameServerAdmin.entries)
    entry = hosted(TrioNameServerAdmin.entry)
    put_entry = hosted(TrioNameServerAdmin.put_entry)
    delete_entry = hosted(TrioNameServerAdmin.delete_entry)
    wipe_write_permission = hosted(TrioNameServerAdmin.wipe_write_permission)
    add_write_permission = hosted(TrioNameServerAdmin.add_write_permission)


class AccessAdmin(Area[TrioAccessAdmin]):
    __doc__ = TrioAccessAdmin.__doc__

    versions = hosted(TrioAccessAdmin.versions)
    put_account = hosted(TrioAccessAdmin.put_account)
    delete_account = hosted(TrioAccessAdmin.delete_account)
    set_white_list = hosted(TrioAccessAdmin.set_white_list)
    users = hosted(TrioAccessAdmin.users)
    user = hosted(TrioAccessAdmin.user)
    create_user = hosted(TrioAccessAdmin.create_user)
    update_user = hosted(TrioAccessAdmin.update_user)
    delete_user = hosted(TrioAccessAdmin.delete_user)
    policies = hosted(TrioAccessAdmin.policies)
    policies_of = hosted(TrioAccessAdmin.policies_of)
    put_policies = hosted(TrioAccessAdmin.put_policies)
    delete_policies = hosted(TrioAccessAdmin.delete_policies)


class ReplicationAdmin(Area[TrioReplicationAdmin]):
    __doc__ = TrioReplicationAdmin.__doc__

    states = hosted(TrioReplicationAdmin.states)
    epochs = hosted(TrioReplicationAdmin.epochs)
    set_master_flush_offset = hosted(TrioReplicationAdmin.set_master_flush_offset)


class ControllerAdmin(Area[TrioControllerAdmin]):
    __doc__ = TrioControllerAdmin.__doc__

    metadata = hosted(TrioControllerAdmin.metadata)
    leader = hosted(TrioControllerAdmin.leader)
    replicas = hosted(TrioControllerAdmin.replicas)
    configs = hosted(TrioControllerAdmin.configs)
    set_config = hosted(TrioControllerAdmin.set_config)
    elect = hosted(TrioControllerAdmin.elect)
    forget = hosted(TrioControllerAdmin.forget)


class UpkeepAdmin(Area[TrioUpkeepAdmin]):
    __doc__ = TrioUpkeepAdmin.__doc__

    cold_data = hosted(TrioUpkeepAdmin.cold_data)
    set_cold_limit = hosted(TrioUpkeepAdmin.set_cold_limit)
    remove_cold_limit = hosted(TrioUpkeepAdmin.remove_cold_limit)
    set_read_ahead = hosted(TrioUpkeepAdmin.set_read_ahead)
    export_tables = hosted(TrioUpkeepAdmin.export_tables)
    compare_queues = hosted(TrioUpkeepAdmin.compare_queues)
    export_pop_records = hosted(TrioUpkeepAdmin.export_pop_records)
    add_broker = hosted(TrioUpkeepAdmin.add_broker)
    remove_broker = hosted(TrioUpkeepAdmin.remove_broker)


class StaticTopicAdmin(Area[TrioStaticTopicAdmin]):
    __doc__ = TrioStaticTopicAdmin.__doc__

    mappings = hosted(TrioStaticTopicAdmin.mappings)
    put = hosted(TrioStaticTopicAdmin.put)


class Admin(Client[TrioAdmin]):
    __doc__ = TrioAdmin.__doc__

    def __init__(self, **options: Unpack[InstanceOptions]) -> None:
        super().__init__(TrioAdmin(**options))
        self.topics = TopicAdmin(self, self._trio.topics)
        self.groups = GroupAdmin(self, self._trio.groups)
        self.offsets = OffsetAdmin(self, self._trio.offsets)
        self.clients = ClientAdmin(self, self._trio.clients)
        self.brokers = BrokerAdmin(self, self._trio.brokers)
        self.messages = MessageAdmin(self, self._trio.messages)
        self.name_servers = NameServerAdmin(self, self._trio.name_servers)
        self.access = AccessAdmin(self, self._trio.access)
        self.replication = ReplicationAdmin(self, self._trio.replication)
        self.controllers = ControllerAdmin(self, self._trio.controllers)
        self.upkeep = UpkeepAdmin(self, self._trio.upkeep)
        self.static_topics = StaticTopicAdmin(self, self._trio.static_topics)

    invoke = hosted(TrioAdmin.invoke)
