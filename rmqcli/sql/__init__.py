"""Queries in SQL over topics of store folders or a cluster: a topic is a table with the columns of an export.

Requires the extra `sql` (DuckDB, NumPy, PyArrow). DuckDB runs the query; rows reach it as Arrow batches,
which it reads in place. The conditions of a query on topic, queue, offset and time decide which records are
read. Nothing can be written, and a query has access to no file and no network.
"""
