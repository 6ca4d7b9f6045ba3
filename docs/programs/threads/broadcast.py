"""A broadcast: each member of the group receives all messages."""

import os
import tempfile
import threading
from pathlib import Path

from rmqcli.client import ConsumeFromWhere, ConsumeResult, Message, MessageModel, PushSettings
from rmqcli.client.sync import Producer, PushConsumer

NAMESRV = os.environ["RMQ_NAMESRV"]


def main():
    with Producer("shop", namesrv=NAMESRV) as producer:
        for price in (10, 11, 12):
            producer.send(Message.of("prices", str(price)))

    seen = {"one": [], "two": []}
    done = threading.Event()

    def listener_of(member):
        def listen(messages, context):
            seen[member] += [int(message.body) for message in messages]
            if all(len(prices) == 3 for prices in seen.values()):
                done.set()
            return ConsumeResult.SUCCESS

        return listen

    def member(name):
        settings = PushSettings(
            message_model=MessageModel.BROADCASTING,
            consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            offsets_folder=Path(tempfile.mkdtemp()),
        )
        listen = listener_of(name)
        return PushConsumer(
            "caches", {"prices": "*"}, listen, settings=settings, instance_name=name, namesrv=NAMESRV
        )

    with member("one"), member("two"):
        done.wait()
    for name, prices in seen.items():
        print(name, sorted(prices))


main()
