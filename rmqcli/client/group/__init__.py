"""Membership in a consumer group: heartbeats, rebalance, offsets, requests of brokers."""
