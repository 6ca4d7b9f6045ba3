"""Benchmarks: each figure is a ratio to another one of the same run."""
