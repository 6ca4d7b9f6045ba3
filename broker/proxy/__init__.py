"""The gRPC front of a broker: the service of RocketMQ 5 over HTTP/2.

Its calls use the same functions as the handlers of remoting. It imports hpack and protobuf, which come with
the extra `grpc`: import `rmqcli.broker.proxy.front` only where a front is opened, and no other module of it.
"""
