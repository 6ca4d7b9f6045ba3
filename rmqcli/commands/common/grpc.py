"""`--grpc [PORT]` and `--strict-types` of `rmq up` and `rmq broker run`: a port for the clients of RocketMQ 5."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import OPTIONAL_PORT, OptionGroup
from rmqcli.codec.ids import join_address
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.common.listening import told_address
from rmqcli.extras import GRPC, require

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
StrictTypesOption = Annotated[
    bool,
    Option(
        "--strict-types",
        help="Accept from gRPC clients only messages of the type of their topic (enableTopicMessageTypeCheck).",
    ),
]


@dataclass(frozen=True, slots=True)
class GrpcOptions(OptionGroup):
    """The port for gRPC clients, and the rules for them."""

    grpc: GrpcOption = None
    strict_types: StrictTypesOption = False

    def properties(self) -> dict[str, str]:
        """Return the properties that these options set. Raise an error if they cannot be obeyed."""
        if self.grpc is not None:
            require(*GRPC)
        elif self.strict_types:
            raise usage_error("--strict-types applies to gRPC clients: add --grpc")
        return {"enableTopicMessageTypeCheck": "true"} if self.strict_types else {}


async def open_grpc(
    stack: AsyncExitStack, port: int | None, node: BrokerNode, configuration: Configuration
) -> dict[str, str]:
    """Serve gRPC clients of a broker until the stack ends. Return {"grpc": address}, or an empty dict without a
    port.
    """
    if port is None:
        return {}
    from rmqcli.broker.config.tls import is_tls_name
    from rmqcli.broker.proxy.embedded import open_broker_front
    from rmqcli.commands.common.serving import opened

    host = node.context.config.bind_address
    tls = {name: value for name, value in configuration.given().items() if is_tls_name(name)}
    front = open_broker_front(node.context, host, port, tls=tls)
    bound = await opened(stack, front, "the gRPC server", join_address(host, port), "--grpc")
    return {"grpc": told_address(host, bound, node.address)}
