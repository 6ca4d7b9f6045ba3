"""Queries in SQL over topics of store folders or a cluster: a topic is a table with the columns of an export.

Needs the extra `sql` (DuckDB, NumPy, PyArrow). DuckDB runs the query; rows reach it as Arrow batches, which
it reads in place. What a query asks of topic, queue, offset and time decides which records are read. Nothing
can be written, and a query reaches no file and no network.
"""
