"""Pop consumption (5.x): the broker lends messages for a time, and takes back what is not acknowledged.

`engine` has the functions that requests call, `queues` what is in flight, `orders` the blocks of FIFO
queues, `waiting` the pops that wait for messages, `revive` what becomes of messages whose time is over,
`saved` the files, and `java_records` the records in which a Java broker keeps the same state.
"""
