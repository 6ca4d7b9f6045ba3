"""The replication protocol between master and slave, and how a stream of log bytes becomes records."""
