"""Exports of topics: queue ranges, pulled from brokers as Arrow batches."""
