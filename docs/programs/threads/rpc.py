"""A question and its answer: a request waits for the reply of a consumer."""

import os

from rmqcli.client import ConsumeFromWhere, ConsumeResult, Message, PushSettings
from rmqcli.client.sync import Admin, Producer, PushConsumer

NAMESRV = os.environ["RMQ_NAMESRV"]


def main():
    with Admin(namesrv=NAMESRV) as admin:
        admin.topics.create("sums", read_queues=1, write_queues=1)

    with Producer("calculators", namesrv=NAMESRV) as producer:

        def answer(messages, context):
            for message in messages:
                total = sum(map(int, message.body.split()))
                producer.reply(message, str(total))
            return ConsumeResult.SUCCESS

        settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        with PushConsumer("calculators", {"sums": "*"}, answer, settings=settings, namesrv=NAMESRV):
            for question in ("1 2 3", "40 2"):
                reply = producer.request(Message.of("sums", question), timeout=30)
                print(question, "=", reply.body.decode())


main()
