"""Counts and distributions over the records of a store."""
