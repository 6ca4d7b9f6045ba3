r"""Output: a table on a terminal, tab-separated lines in a pipe, JSON on request.

rich is imported only to draw on a terminal. TSV has no header line (`cut`, `sort` and `awk` work directly);
tabs, line ends and backslashes in a value are written \t, \n, \r and \\. JSON names are camelCase; times are
epoch milliseconds.
"""

from __future__ import annotations

from rmqcli.render.output import Output as Output
from rmqcli.render.table import Column as Column
from rmqcli.render.table import show_rows as show_rows
