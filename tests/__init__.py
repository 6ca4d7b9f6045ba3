"""The tests; never installed."""
