"""The gRPC front of brokers: the service of RocketMQ 5 over HTTP/2.

Its calls ask a `backend`: the broker that it belongs to (`embedded`), or another implementation. It imports
hpack and protobuf, which come with the extra `grpc`: import its modules only where a front is opened.
"""
