"""Exports to tables of a lakehouse."""
