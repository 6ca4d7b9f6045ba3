"""Polling, with pulls, rebalance and commits in the background (Java `DefaultLitePullConsumer`)."""
