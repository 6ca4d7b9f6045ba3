"""Stored records: read, written, selected, and what queues and index have of them. `rmqcli.codec.core` does
the work on their bytes."""
