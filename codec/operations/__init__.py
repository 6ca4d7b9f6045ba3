"""The table of operations: one typed constant for each request code, with which clients and servers encode
and decode.

An operation has the name of its `RequestCode` and is in the module of its area, so that a command imports
only the classes of that area.

A client encodes a request and decodes the reply:

    from rmqcli.codec.operations.topics import GET_TOPIC_STATS_INFO as operation

    ext_fields, body = operation.encode_request(GetTopicStatsInfoRequestHeader(topic="T"), None)
    ...  # send RemotingCommand(operation.code, ext_fields, body), receive `reply`
    answer = operation.decode_reply(reply)  # Answer[None, TopicStatsTable]

A server decodes the request and encodes the reply:

    header, body = operation.decode_request(request)
    ext_fields, body = operation.encode_reply(None, TopicStatsTable(...))

Type checkers infer all four types from the constant. Decoding raises HeaderError or BodyError.
"""
