"""Work on a cluster that takes several calls of `Admin`: plans of changes, and the facts that they rest on.

A plan is a list of steps. `planned` compares what servers have with what is wanted, the command shows the
steps, and `carry_out` applies them.
"""
