"""Orders that are stored in a database and sent, both or neither."""

import os
import sqlite3
import tempfile
from pathlib import Path

from rmqcli.client import ConsumeFromWhere, LiteSettings, Message, TransactionState
from rmqcli.client.sync import LitePullConsumer, TransactionProducer

NAMESRV = os.environ["RMQ_NAMESRV"]
DATABASE = Path(tempfile.mkdtemp(), "orders.db")


def place(half):
    """Write the order in a transaction of the database; only then consumers see the message."""
    order = half.body.decode()
    with sqlite3.connect(DATABASE) as database:
        if order == "too much":
            return TransactionState.ROLLBACK_MESSAGE
        database.execute("INSERT INTO orders VALUES (?)", [order])
    return TransactionState.COMMIT_MESSAGE


def check(half):
    """Answer a broker that did not learn the outcome, from what all producers see."""
    with sqlite3.connect(DATABASE) as database:
        found = database.execute("SELECT 1 FROM orders WHERE name = ?", [half.body.decode()]).fetchone()
    return TransactionState.COMMIT_MESSAGE if found else TransactionState.ROLLBACK_MESSAGE


def main():
    with sqlite3.connect(DATABASE) as database:
        database.execute("CREATE TABLE orders (name TEXT)")
    with TransactionProducer("shop", check, namesrv=NAMESRV) as producer:
        for order in ("one book", "too much", "two pens"):
            result = producer.send_in_transaction(Message.of("orders", order), place)
            print(order, result.state.name)
    settings = LiteSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with LitePullConsumer("packers", settings=settings, namesrv=NAMESRV) as consumer:
        consumer.subscribe("orders")
        packed = []
        while len(packed) < 2:
            packed += [message.body.decode() for message in consumer.poll()]
    print("packed:", sorted(packed))


main()
