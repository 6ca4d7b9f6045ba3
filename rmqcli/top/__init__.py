"""The load of groups, topics or brokers, and a live view of it on a terminal.

Readings, trends, the view and its keys are values without I/O; `terminal` shows screens and reads keys, and
`live` joins them.
"""
