"""The gRPC front end of brokers: the service of RocketMQ 5 over HTTP/2.

Its calls use a `backend`: the broker that it belongs to (`embedded`), or another implementation. It imports
hpack and protobuf, which the extra `grpc` installs, so import its modules only where a front is opened.
"""
