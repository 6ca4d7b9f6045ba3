"""Stored records: reading, writing, selection, and their entries in queues and index. `rmqcli.codec.core`
does the work on their bytes.
"""
