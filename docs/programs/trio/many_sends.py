"""A sender of many messages that does not wait for each."""

import os

import trio

from rmqcli.client import Message, Producer, SendResult

NAMESRV = os.environ["RMQ_NAMESRV"]


async def main():
    outcomes = []
    async with Producer("meters", namesrv=NAMESRV) as producer:
        for number in range(1000):
            await producer.send_soon(Message.of("readings", f"reading {number}"), outcomes.append)
    # Leaving the block waits for all of them.
    print("sent:", sum(isinstance(outcome, SendResult) for outcome in outcomes))


trio.run(main)
