"""The layouts of store files: commit-log records, consume queues, index files, the checkpoint."""
