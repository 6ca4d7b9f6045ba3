"""Copies of topics, within a cluster or to another one, that continue where they stopped."""
