"""A sender of many messages that does not wait for each."""

import asyncio
import os

from rmqcli.client import Message
from rmqcli.client.aio import Producer

NAMESRV = os.environ["RMQ_NAMESRV"]


async def main():
    async with Producer("meters", namesrv=NAMESRV) as producer:
        futures = [
            await producer.send_soon(Message.of("readings", f"reading {number}")) for number in range(1000)
        ]
    # Leaving the block waits for all of them.
    print("sent:", sum(future.exception() is None for future in futures))


asyncio.run(main())
