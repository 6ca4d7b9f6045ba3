"""Clusters for tests: embedded on free ports, in memory on a virtual clock, or as pytest fixtures."""
