"""Parquet files of an export and the folder that they lie in."""
