"""A sender of many messages that does not wait for each."""

import os

from rmqcli.client import Message
from rmqcli.client.sync import Producer

NAMESRV = os.environ["RMQ_NAMESRV"]


def main():
    with Producer("meters", namesrv=NAMESRV) as producer:
        futures = [producer.send_soon(Message.of("readings", f"reading {number}")) for number in range(1000)]
    # Leaving the block waits for all of them.
    print("sent:", sum(future.exception() is None for future in futures))


main()
