"""Messages of one key in one queue, consumed in their order."""

import os
import threading

from rmqcli.client import ConsumeFromWhere, Message, OrderlyResult, PushSettings, by_hash
from rmqcli.client.sync import Producer, PushConsumer

NAMESRV = os.environ["RMQ_NAMESRV"]


def main():
    with Producer("shop", namesrv=NAMESRV) as producer:
        for number in range(5):
            for customer in ("anna", "bert", "cleo"):
                message = Message.of("steps", str(number), keys=customer)
                producer.send(message, selector=by_hash(customer))

    seen = {}
    done = threading.Event()

    def listen(messages, context):
        for message in messages:
            seen.setdefault(message.keys[0], []).append(int(message.body))
        if sum(map(len, seen.values())) == 15:
            done.set()
        return OrderlyResult.SUCCESS

    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with PushConsumer("followers", {"steps": "*"}, listen, orderly=True, settings=settings, namesrv=NAMESRV):
        done.wait()
    for customer, numbers in sorted(seen.items()):
        print(customer, numbers)


main()
