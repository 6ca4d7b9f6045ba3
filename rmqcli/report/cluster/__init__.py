"""The report on a cluster."""
