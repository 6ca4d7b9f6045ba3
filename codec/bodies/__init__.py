"""JSON bodies of requests and replies as typed values, with the names of the Java classes.
`rmqcli.codec.operations` lists the body of each operation.
"""
