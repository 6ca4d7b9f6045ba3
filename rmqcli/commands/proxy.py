"""`rmq proxy`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from rmqcli.cli.command import command, single_command
from rmqcli.cli.settings import Settings
from rmqcli.codec.ids import join_address
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.common.grpc import StrictTypesOption
from rmqcli.commands.common.listening import LOCAL, Listening, is_open, local_address
from rmqcli.extras import GRPC, require
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.broker.config import ProxyConfig

app = single_command()


@command(
    app,
    "proxy",
    example="""rmq proxy -n 10.0.0.5:9876
rmq proxy -n 10.0.0.5:9876 --host 0.0.0.0 --config proxy.conf
rmq proxy --set aclEnable=true --set plainAclFile=clients.yml
rmq proxy --set authenticationEnabled=true --host 0.0.0.0""",
)
def proxy(
    settings: Settings,
    *,
    listening: Listening,
    strict_types: StrictTypesOption = False,
    configuration: Configuration,
) -> None:
    """Serve gRPC clients of RocketMQ 5 in front of a cluster, until Ctrl-C or SIGTERM (exit code 0).

    The brokers of the cluster are asked over remoting, with the account and the TLS options of this command;
    receives need brokers of 5.x or of rmq. The port, 8081 by default, accepts plain text and TLS. With
    aclEnable=true, calls must be signed with an account of plainAclFile; with authenticationEnabled=true,
    with a user of the brokers, whose policies apply with authorizationEnabled=true. With --json, prints one
    line when clients can connect: {"grpc": "...", "namesrv": "..."}.
    """
    require(*GRPC)
    from rmqcli.broker.config import ProxyConfig
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    log_to_stderr(settings)
    fixed = {"enableTopicMessageTypeCheck": "true"} if strict_types else {}
    config = listening.configure(configuration, ProxyConfig, fixed=fixed)
    options = settings.client_options
    run_until_stopped(lambda stack: _start(stack, settings, config, configuration, options))


async def _start(
    stack: AsyncExitStack,
    settings: Settings,
    config: ProxyConfig,
    configuration: Configuration,
    options: dict[str, Any],
) -> None:
    from rmqcli.broker.config.tls import is_tls_name
    from rmqcli.commands.common.serving import announce, opened
    from rmqcli.proxy.server import open_proxy

    host = config.bind_address
    tls = {name: value for name, value in configuration.given().items() if is_tls_name(name)}
    server = open_proxy(config, options, tls=tls)
    port = await opened(stack, server, "the proxy", join_address(host, config.listen_port), "--port")
    if is_open(host) and not (config.acl_enable or config.authentication_enabled):
        warn(
            f"listening on {host} without accounts: who reaches port {port} can do what the account of the proxy "
            f"may do; --host {LOCAL} serves this machine only, aclEnable=true requires accounts, and "
            "authenticationEnabled=true users"
        )
    address = join_address(local_address(host), port)
    namesrv = str(options["namesrv"])
    announce(
        settings, {"grpc": address, "namesrv": namesrv}, f"proxy of {namesrv} listening on {address} (gRPC)"
    )
