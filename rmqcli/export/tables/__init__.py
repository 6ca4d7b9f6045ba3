"""Lakehouse tables, Delta Lake and Apache Iceberg, as destinations of exports.

A run writes data files as they fill and ends with one commit, which contains the files and the offsets up to
which every queue is in the table. So rows and offsets never disagree: a killed run has added nothing, and its
files, which no commit refers to, are removed by the table's own clean-up. Requires the extra `table`.
"""
