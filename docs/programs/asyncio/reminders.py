"""Reminders: messages that the broker delivers after a delay."""

import asyncio
import os

from rmqcli.client import ConsumeFromWhere, LiteSettings, Message
from rmqcli.client.aio import LitePullConsumer, Producer

NAMESRV = os.environ["RMQ_NAMESRV"]


async def main():
    async with Producer("calendar", namesrv=NAMESRV) as producer:
        await producer.send(Message.of("reminders", "now"))
        await producer.send(Message.of("reminders", "in a second", delay_level=1))

    settings = LiteSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with LitePullConsumer("bells", settings=settings, namesrv=NAMESRV) as consumer:
        await consumer.subscribe("reminders")
        rung = []
        while len(rung) < 2:
            rung += await consumer.poll()
    rung.sort(key=lambda message: message.store_timestamp)
    for message in rung:
        waited = message.store_timestamp - message.born_timestamp
        print(message.body.decode(), "waited" if waited >= 900 else "came at once")


asyncio.run(main())
