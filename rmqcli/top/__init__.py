"""The load that groups, topics or brokers carry, and a live view of it on a terminal.

Readings, trends, the view and its keys are values without I/O; `screen` is the terminal, and `live` joins
them.
"""
