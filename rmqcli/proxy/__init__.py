"""`rmq proxy`: the gRPC front end of a cluster, which sends remoting requests to the brokers as a client.

It imports `rmqcli.broker.proxy`, which needs the extra `grpc`.
"""
