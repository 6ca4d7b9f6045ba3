"""Producers: sends, batches, transactions, request and reply."""
