"""Replication between a master and its slaves: the commit log over connections of its own, tables by requests."""
