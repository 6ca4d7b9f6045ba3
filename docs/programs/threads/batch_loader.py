"""A loader that sends rows in batches, each stored whole or not at all."""

import os

from rmqcli.client import Message, split_batch
from rmqcli.client.sync import Admin, Producer

NAMESRV = os.environ["RMQ_NAMESRV"]


def main():
    messages = [Message.of("rows", f"row {number}") for number in range(1000)]
    with Producer("loader", namesrv=NAMESRV) as producer:
        for part in split_batch(messages, max_count=300):
            result = producer.send_batch(part)
            print(len(part), result.status.name)
    with Admin(namesrv=NAMESRV) as admin:
        offsets = admin.topics.stats("rows")
        print("stored:", sum(offset.max_offset for offset in offsets.values()))


main()
