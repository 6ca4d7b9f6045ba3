"""Import: rows of Parquet and JSON-lines files, sent to a topic."""
