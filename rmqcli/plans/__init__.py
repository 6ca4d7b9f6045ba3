"""Operations on a cluster that take several calls of `Admin`: plans of changes, and the data that they are
based on.

A plan is a list of steps. `planned` compares the current state of servers with the desired one, the command
shows the steps, and `carry_out` applies them.
"""
