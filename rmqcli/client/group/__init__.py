"""Membership in a consumer group: heartbeats, subscriptions, rebalance, offsets."""
