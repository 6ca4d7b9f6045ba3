"""Pop consumption (5.x): the broker lends messages for a limited time, and takes back unacknowledged ones.

`engine` has the functions that requests call, `queues` the messages in flight, `orders` the blocks of FIFO
queues, `waiting` the pops that wait for messages, `revive` the handling of messages whose time is over,
`saved` the files, and `java_records` the records in which a Java broker keeps the same state.
"""
