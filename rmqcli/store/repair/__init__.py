"""New store files from old ones: rebuilt consume queues and index, a salvaged store."""
