"""Figures of a cluster as Prometheus metrics.

`families` declares them, `runtime` and `rates` read them, `collect` queries the cluster for everything in one
scrape, `exposition` converts samples for prometheus_client, and `server` answers scrapes.
"""
