"""Store files read without a broker: commit log, consume queues, index, saved tables."""
