"""Administration for threads."""

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
from rmqcli.client.instance import InstanceOptions
from rmqcli.client.sync.methods import Client, blocking, relayed
from rmqcli.client.sync.portal import Portal

AreaT = TypeVar("AreaT", bound=TrioArea)


class Area(Generic[AreaT]):
    """Base of the areas: calls go through the Admin."""

    def __init__(self, admin: Admin, area: AreaT) -> None:
        self._admin = admin
        self._trio = area

    @property
    def _portal(self) -> Portal:
        return self._admin._portal


class TopicAdmin(Area[TrioTopicAdmin]):
    __doc__ = TrioTopicAdmin.__doc__

    names = blocking(TrioTopicAdmin.names)
    route = blocking(TrioTopicAdmin.route)
    masters = blocking(TrioTopicAdmin.masters)
    holders = blocking(TrioTopicAdmin.holders)
    hidden = blocking(TrioTopicAdmin.hidden)
    settings = blocking(TrioTopicAdmin.settings)
    all_settings = blocking(TrioTopicAdmin.all_settings)
    stats = blocking(TrioTopicAdmin.stats)
    timers = blocking(TrioTopicAdmin.timers)
    entries = blocking(TrioTopicAdmin.entries)
    groups = blocking(TrioTopicAdmin.groups)
    create = blocking(TrioTopicAdmin.create)
    order_layout = blocking(TrioTopicAdmin.order_layout)
    put = blocking(TrioTopicAdmin.put)
    put_layout = blocking(TrioTopicAdmin.put_layout)
    update = blocking(TrioTopicAdmin.update)
    delete = blocking(TrioTopicAdmin.delete)
    try_delete = blocking(TrioTopicAdmin.try_delete)


class GroupAdmin(Area[TrioGroupAdmin]):
    __doc__ = TrioGroupAdmin.__doc__

    all_settings = blocking(TrioGroupAdmin.all_settings)
    names = blocking(TrioGroupAdmin.names)
    with_offsets_on = blocking(TrioGroupAdmin.with_offsets_on)
    summaries = blocking(TrioGroupAdmin.summaries)
    settings = blocking(TrioGroupAdmin.settings)
    holders = blocking(TrioGroupAdmin.holders)
    create = blocking(TrioGroupAdmin.create)
    update = blocking(TrioGroupAdmin.update)
    delete = blocking(TrioGroupAdmin.delete)
    delete_topics = blocking(TrioGroupAdmin.delete_topics)
    describe = blocking(TrioGroupAdmin.describe)
    check_known = blocking(TrioGroupAdmin.check_known)
    set_mode = blocking(TrioGroupAdmin.set_mode)


class OffsetAdmin(Area[TrioOffsetAdmin]):
    __doc__ = TrioOffsetAdmin.__doc__

    stats = blocking(TrioOffsetAdmin.stats)
    next_messages = blocking(TrioOffsetAdmin.next_messages)
    lags = blocking(TrioOffsetAdmin.lags)
    stats_on = blocking(TrioOffsetAdmin.stats_on)
    with_subscribed = blocking(TrioOffsetAdmin.with_subscribed)
    none_committed = relayed(TrioOffsetAdmin.none_committed)
    lags_of = blocking(TrioOffsetAdmin.lags_of)
    unread = blocking(TrioOffsetAdmin.unread)
    beyond = blocking(TrioOffsetAdmin.beyond)
    positions = blocking(TrioOffsetAdmin.positions)
    plan_reset = blocking(TrioOffsetAdmin.plan_reset)
    reset = blocking(TrioOffsetAdmin.reset)
    min_offset = blocking(TrioOffsetAdmin.min_offset)
    max_offset = blocking(TrioOffsetAdmin.max_offset)
    search_offset = blocking(TrioOffsetAdmin.search_offset)
    earliest_store_time = blocking(TrioOffsetAdmin.earliest_store_time)
    committed = blocking(TrioOffsetAdmin.committed)
    commit = blocking(TrioOffsetAdmin.commit)


class ClientAdmin(Area[TrioClientAdmin]):
    __doc__ = TrioClientAdmin.__doc__

    consumers = blocking(TrioClientAdmin.consumers)
    connections = blocking(TrioClientAdmin.connections)
    connected = blocking(TrioClientAdmin.connected)
    producers = blocking(TrioClientAdmin.producers)
    producers_of = blocking(TrioClientAdmin.producers_of)
    running_info = blocking(TrioClientAdmin.running_info)
    running_infos = blocking(TrioClientAdmin.running_infos)
    queue_owners = blocking(TrioClientAdmin.queue_owners)
    activity = blocking(TrioClientAdmin.activity)
    activities = blocking(TrioClientAdmin.activities)
    consumer_ids = blocking(TrioClientAdmin.consumer_ids)
    held_offsets = blocking(TrioClientAdmin.held_offsets)
    consume_directly = blocking(TrioClientAdmin.consume_directly)


class BrokerAdmin(Area[TrioBrokerAdmin]):
    __doc__ = TrioBrokerAdmin.__doc__

    cluster_info = blocking(TrioBrokerAdmin.cluster_info)
    masters = blocking(TrioBrokerAdmin.masters)
    seats = blocking(TrioBrokerAdmin.seats)
    runtime_info = blocking(TrioBrokerAdmin.runtime_info)
    runtime_infos = blocking(TrioBrokerAdmin.runtime_infos)
    lags = blocking(TrioBrokerAdmin.lags)
    statistics = blocking(TrioBrokerAdmin.statistics)
    configs = blocking(TrioBrokerAdmin.configs)
    set_config = blocking(TrioBrokerAdmin.set_config)
    advance_clock = blocking(TrioBrokerAdmin.advance_clock)
    clean = blocking(TrioBrokerAdmin.clean)
    summaries = blocking(TrioBrokerAdmin.summaries)


class MessageAdmin(Area[TrioMessageAdmin]):
    __doc__ = TrioMessageAdmin.__doc__

    query_by_key = blocking(TrioMessageAdmin.query_by_key)
    query_by_uniq_key = blocking(TrioMessageAdmin.query_by_uniq_key)
    query_by_id = blocking(TrioMessageAdmin.query_by_id)
    query_everywhere = blocking(TrioMessageAdmin.query_everywhere)
    view = blocking(TrioMessageAdmin.view)
    view_all = blocking(TrioMessageAdmin.view_all)


class NameServerAdmin(Area[TrioNameServerAdmin]):
    __doc__ = TrioNameServerAdmin.__doc__

    @property
    def addresses(self) -> dict[str, str]:
        """Every name server of the client, keyed by its address."""
        return self._trio.addresses

    configs = blocking(TrioNameServerAdmin.configs)
    set_config = blocking(TrioNameServerAdmin.set_config)
    entries = blocking(TrioNameServerAdmin.entries)
    entry = blocking(TrioNameServerAdmin.entry)
    put_entry = blocking(TrioNameServerAdmin.put_entry)
    delete_entry = blocking(TrioNameServerAdmin.delete_entry)
    wipe_write_permission = blocking(TrioNameServerAdmin.wipe_write_permission)
    add_write_permission = blocking(TrioNameServerAdmin.add_write_permission)


class AccessAdmin(Area[TrioAccessAdmin]):
    __doc__ = TrioAccessAdmin.__doc__

    versions = blocking(TrioAccessAdmin.versions)
    put_account = blocking(TrioAccessAdmin.put_account)
    delete_account = blocking(TrioAccessAdmin.delete_account)
    set_white_list = blocking(TrioAccessAdmin.set_white_list)
    users = blocking(TrioAccessAdmin.users)
    user = blocking(TrioAccessAdmin.user)
    create_user = blocking(TrioAccessAdmin.create_user)
    update_user = blocking(TrioAccessAdmin.update_user)
    delete_user = blocking(TrioAccessAdmin.delete_user)
    policies = blocking(TrioAccessAdmin.policies)
    policies_of = blocking(TrioAccessAdmin.policies_of)
    put_policies = blocking(TrioAccessAdmin.put_policies)
    delete_policies = blocking(TrioAccessAdmin.delete_policies)


class ReplicationAdmin(Area[TrioReplicationAdmin]):
    __doc__ = TrioReplicationAdmin.__doc__

    states = blocking(TrioReplicationAdmin.states)
    epochs = blocking(TrioReplicationAdmin.epochs)
    set_master_flush_offset = blocking(TrioReplicationAdmin.set_master_flush_offset)


class ControllerAdmin(Area[TrioControllerAdmin]):
    __doc__ = TrioControllerAdmin.__doc__

    metadata = blocking(TrioControllerAdmin.metadata)
    leader = blocking(TrioControllerAdmin.leader)
    replicas = blocking(TrioControllerAdmin.replicas)
    configs = blocking(TrioControllerAdmin.configs)
    set_config = blocking(TrioControllerAdmin.set_config)
    elect = blocking(TrioControllerAdmin.elect)
    forget = blocking(TrioControllerAdmin.forget)


class UpkeepAdmin(Area[TrioUpkeepAdmin]):
    __doc__ = TrioUpkeepAdmin.__doc__

    cold_data = blocking(TrioUpkeepAdmin.cold_data)
    set_cold_limit = blocking(TrioUpkeepAdmin.set_cold_limit)
    remove_cold_limit = blocking(TrioUpkeepAdmin.remove_cold_limit)
    set_read_ahead = blocking(TrioUpkeepAdmin.set_read_ahead)
    export_tables = blocking(TrioUpkeepAdmin.export_tables)
    compare_queues = blocking(TrioUpkeepAdmin.compare_queues)
    export_pop_records = blocking(TrioUpkeepAdmin.export_pop_records)
    add_broker = blocking(TrioUpkeepAdmin.add_broker)
    remove_broker = blocking(TrioUpkeepAdmin.remove_broker)


class StaticTopicAdmin(Area[TrioStaticTopicAdmin]):
    __doc__ = TrioStaticTopicAdmin.__doc__

    mappings = blocking(TrioStaticTopicAdmin.mappings)
    put = blocking(TrioStaticTopicAdmin.put)


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

    invoke = blocking(TrioAdmin.invoke)
