"""Replication between a master and its slaves: the commit log over separate connections, tables by
requests."""
