"""A question and its answer: a request waits for the reply of a consumer."""

import asyncio
import os

from rmqcli.client import ConsumeFromWhere, ConsumeResult, Message, PushSettings
from rmqcli.client.aio import Admin, Producer, PushConsumer

NAMESRV = os.environ["RMQ_NAMESRV"]


async def main():
    async with Admin(namesrv=NAMESRV) as admin:
        await admin.topics.create("sums", read_queues=1, write_queues=1)

    async with Producer("calculators", namesrv=NAMESRV) as producer:

        async def answer(messages, context):
            for message in messages:
                total = sum(map(int, message.body.split()))
                await producer.reply(message, str(total))
            return ConsumeResult.SUCCESS

        settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        async with PushConsumer("calculators", {"sums": "*"}, answer, settings=settings, namesrv=NAMESRV):
            for question in ("1 2 3", "40 2"):
                reply = await producer.request(Message.of("sums", question), timeout=30)
                print(question, "=", reply.body.decode())


asyncio.run(main())
