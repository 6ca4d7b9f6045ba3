"""The gRPC service of RocketMQ 5, `apache.rocketmq.v2.MessagingService`: its messages, and the frames that carry
them.

The modules `messages` and `codes` import protobuf, which comes with the extra `grpc`.
"""
