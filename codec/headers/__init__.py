"""Ext fields of requests and replies as typed values, with the names of the Java classes.
`rmqcli.codec.operations` lists the header of each operation.
"""
