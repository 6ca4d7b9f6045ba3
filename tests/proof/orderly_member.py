"""An orderly PushConsumer that prints what it handles.

Usage: python -m tests.proof.orderly_member NAMESRV TOPIC GROUP NAME.

It rebalances every second, to take over the locks of a dead member soon; the default, as in Java, is 20 s.
"""

from __future__ import annotations

import json
import os
import sys

import trio

from rmqcli.client import OrderlyContext, OrderlyResult, PushConsumer, PushSettings
from rmqcli.codec.message import MessageExt
from tests.support import PATIENCE


async def main(namesrv: str, topic: str, group: str, name: str) -> None:
    async def handle(messages: list[MessageExt], _: OrderlyContext) -> OrderlyResult:
        for message in messages:
            line = {"member": name, "body": message.body.decode(), "queueId": message.queue_id}
            os.write(1, json.dumps(line).encode() + b"\n")
        return OrderlyResult.SUCCESS

    settings = PushSettings(rebalance_interval=1.0)
    async with PushConsumer(
        group, {topic: "*"}, handle, orderly=True, settings=settings, namesrv=namesrv, timeout=PATIENCE
    ):
        await trio.sleep_forever()


if __name__ == "__main__":
    namesrv, topic, group, name = sys.argv[1:]
    trio.run(main, namesrv, topic, group, name)
