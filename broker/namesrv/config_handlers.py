"""The running configuration: codes 318 and 319 (Java `DefaultRequestProcessor`). A change is written to
`configStorePath`."""

from __future__ import annotations

import logging
from functools import partial

from broker.config import config_properties, expand_path, update_config, warn_unknown
from broker.config.checks import check_values
from broker.config.properties import write_properties
from broker.errors import ConfigError, Refusal
from broker.namesrv.state import NameServerState
from broker.net.handling import Reply, Request
from codec.codes import ResponseCode

_log = logging.getLogger("broker.namesrv")


def get_config(state: NameServerState, _request: Request[None, None]) -> Reply[None, dict[str, str]]:
    """319: every property that has a value."""
    return Reply(body=config_properties(state.config))


def set_config(state: NameServerState, request: Request[None, dict[str, str]]) -> Reply[None, None]:
    """318: changes properties; those in configBlackList are refused, unknown ones reported."""
    try:
        update = update_config(state.config, request.body)
        check_values(update.config)
    except ConfigError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
    if update.forbidden:
        raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    warn_unknown(update.unknown, f"request of {request.session.peer_text}")
    state.config = update.config
    state.barrier = partial(_save, state)
    return Reply()


async def _save(state: NameServerState) -> None:
    if not state.config.config_store_path:
        return
    path = expand_path(state.config.config_store_path)
    try:
        await state.in_thread(write_properties, path, config_properties(state.config), state.disk)
    except OSError as error:  # the change holds until the next start, as in Java
        _log.error("cannot save the configuration to %s: %s", path, error)
