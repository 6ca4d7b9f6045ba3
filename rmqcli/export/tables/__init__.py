"""Tables of a lakehouse, Delta Lake and Apache Iceberg, as destinations of exports.

A run writes data files as they fill and ends with one commit, which holds the files and the offsets up to
which every queue is in the table. So rows and offsets never disagree: a killed run has added nothing, and its
files, of which no commit knows, are removed by the table's own clean-up. Needs the extra `table`.
"""
