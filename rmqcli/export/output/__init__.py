"""Parquet files of an export, and the folder that contains them."""
