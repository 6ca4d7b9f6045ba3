"""Measures what a cluster does under a load of a fixed rate.

`pacing` says when each operation is due, `histogram` keeps times, `running` starts operations and counts what
comes of them, `topic` makes and removes the topic, `sends`, `pulls` and `round_trips` are the operations,
`comparison` judges a result by an older one, and `show` draws it.
"""
