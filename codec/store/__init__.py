"""Layouts of store files: records, consume queues, index files, the checkpoint."""
