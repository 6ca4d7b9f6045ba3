"""Reminders: messages that the broker delivers after a delay."""

import os

from rmqcli.client import ConsumeFromWhere, LiteSettings, Message
from rmqcli.client.sync import LitePullConsumer, Producer

NAMESRV = os.environ["RMQ_NAMESRV"]


def main():
    with Producer("calendar", namesrv=NAMESRV) as producer:
        producer.send(Message.of("reminders", "now"))
        producer.send(Message.of("reminders", "in a second", delay_level=1))

    settings = LiteSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with LitePullConsumer("bells", settings=settings, namesrv=NAMESRV) as consumer:
        consumer.subscribe("reminders")
        rung = []
        while len(rung) < 2:
            rung += consumer.poll()
    rung.sort(key=lambda message: message.store_timestamp)
    for message in rung:
        waited = message.store_timestamp - message.born_timestamp
        print(message.body.decode(), "waited" if waited >= 900 else "came at once")


main()
