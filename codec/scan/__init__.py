"""Stored records as Arrow tables, and queue entries as columns. Needs the extra `export` (NumPy, PyArrow)."""
