"""The remoting protocol, messages and store files of Apache RocketMQ: bytes to values and back, no I/O."""
