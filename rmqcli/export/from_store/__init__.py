"""Exports of store folders: which parts of the commit log to read, and their records as Arrow batches."""
