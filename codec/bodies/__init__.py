"""JSON bodies of requests and replies as typed values, with the names of the Java classes. `codec.operations`
lists the body of each operation.
"""
