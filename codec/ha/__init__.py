"""The replication protocol between master and slave, and the conversion of a stream of log bytes to
records.
"""
