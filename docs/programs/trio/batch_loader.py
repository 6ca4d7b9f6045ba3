"""A loader that sends rows in batches, each stored whole or not at all."""

import os

import trio

from rmqcli.client import Admin, Message, Producer, split_batch

NAMESRV = os.environ["RMQ_NAMESRV"]


async def main():
    messages = [Message.of("rows", f"row {number}") for number in range(1000)]
    async with Producer("loader", namesrv=NAMESRV) as producer:
        for part in split_batch(messages, max_count=300):
            result = await producer.send_batch(part)
            print(len(part), result.status.name)
    async with Admin(namesrv=NAMESRV) as admin:
        offsets = await admin.topics.stats("rows")
        print("stored:", sum(offset.max_offset for offset in offsets.values()))


trio.run(main)
