"""Operations on a cluster that take several calls of `Admin`: plans of changes, and the data that they are
based on.

A plan is a list of steps. `planned` compares what servers have with what is wanted, the command shows the
steps, and `carry_out` applies them.
"""
