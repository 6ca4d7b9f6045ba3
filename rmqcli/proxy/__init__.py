"""`rmq proxy`: the gRPC front of a cluster, whose brokers it asks over remoting as a client.

It imports `rmqcli.broker.proxy`, which needs the extra `grpc`.
"""
