"""Measures a cluster under a load at a fixed rate.

`running` starts operations when they are due and counts their results, `histogram` keeps times and compares a
result with an older one, `measure` has the benchmarks and their topic, and `show` draws a result.
"""
