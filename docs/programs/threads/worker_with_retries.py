"""A worker whose failed messages come again, after a delay."""

import os
import threading

from rmqcli.client import ConsumeFromWhere, ConsumeResult, Message, PushSettings
from rmqcli.client.sync import Producer, PushConsumer

NAMESRV = os.environ["RMQ_NAMESRV"]


def main():
    with Producer("shop", namesrv=NAMESRV) as producer:
        for body in ("invoice", "broken invoice"):
            producer.send(Message.of("invoices", body))

    attempts = []
    done = threading.Event()

    def work(messages, context):
        (message,) = messages
        attempts.append((message.body.decode(), message.reconsume_times))
        if message.body == b"broken invoice" and message.reconsume_times < 2:
            context.delay_level = 1  # after a second; by default the broker waits longer each time
            return ConsumeResult.RECONSUME_LATER
        if len(attempts) == 4:
            done.set()
        return ConsumeResult.SUCCESS

    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with PushConsumer("workers", {"invoices": "*"}, work, settings=settings, namesrv=NAMESRV):
        done.wait()
    print(*sorted(attempts), sep="\n")


main()
