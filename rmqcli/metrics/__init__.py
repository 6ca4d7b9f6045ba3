"""Figures of a cluster as metrics of Prometheus.

`families` declares them, `runtime`, `offsets` and `rates` read them, `collect` asks the cluster for all of
one scrape, and `server` answers scrapes.
"""
