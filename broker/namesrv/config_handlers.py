"""The running configuration: codes 318 and 319 (Java `DefaultRequestProcessor`). A change is written to `configStorePath`."""

from __future__ import annotations

import logging

from broker.config import config_properties, config_text, expand_path, update_config, warn_unknown
from broker.config.checks import check_values
from broker.config.properties import write_properties
from broker.errors import ConfigError, Refusal
from broker.namesrv.state import NameServerState
from broker.net.session import Session
from codec.bodies.properties import parse_properties
from codec.codes import ResponseCode
from codec.remoting.frame import RemotingCommand

__all__ = ["get_config", "set_config"]

_log = logging.getLogger("broker.namesrv")


def get_config(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    return request.reply(ResponseCode.SUCCESS, body=config_text(state.config).encode())


def set_config(state: NameServerState, session: Session, request: RemotingCommand) -> RemotingCommand:
    try:
        update = update_config(state.config, parse_properties(bytes(request.body).decode()))
        check_values(update.config)
    except (ConfigError, UnicodeDecodeError) as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
    if update.forbidden:
        raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    warn_unknown(update.unknown, f"request of {session.peer_text}")
    state.config = update.config
    _save(state)
    return request.reply(ResponseCode.SUCCESS)


def _save(state: NameServerState) -> None:
    if not state.config.config_store_path:
        return
    path = expand_path(state.config.config_store_path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_properties(path, config_properties(state.config))
    except OSError as error:  # the change holds until the next start, as in Java
        _log.error("cannot save the configuration to %s: %s", path, error)
