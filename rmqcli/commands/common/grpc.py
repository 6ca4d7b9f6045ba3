"""`--grpc [PORT]` of `rmq up` and `rmq broker`: a port for the clients of RocketMQ 5."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.options import OPTIONAL_PORT
from rmqcli.codec.ids import join_address
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.common.listening import told_address

if TYPE_CHECKING:
    from rmqcli.broker.node import BrokerNode

GrpcOption = Annotated[
    int | None,
    Option(
        "--grpc",
        metavar=OPTIONAL_PORT,
        min=0,
        max=65535,
        help="Also serve gRPC clients of RocketMQ 5 on this port, plain and over TLS; default: 8081, 0 for any free "
        "port.",
        show_default=False,
    ),
]


async def open_grpc(
    stack: AsyncExitStack, port: int | None, node: BrokerNode, configuration: Configuration
) -> dict[str, str]:
    """Serve gRPC clients of a broker until the stack ends. Return {"grpc": address}, or an empty dict without a
    port.
    """
    if port is None:
        return {}
    from rmqcli.broker.config.tls import is_tls_name
    from rmqcli.broker.proxy.front import open_front
    from rmqcli.commands.common.serving import opened

    host = node.context.config.bind_address
    tls = {name: value for name, value in configuration.given().items() if is_tls_name(name)}
    front = open_front(node.context, host, port, tls=tls)
    bound = await opened(stack, front, "the gRPC server", join_address(host, port), "--grpc")
    return {"grpc": told_address(host, bound, node.address)}
