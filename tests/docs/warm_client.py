"""`rmq` or `python` run by a copy of the server of warm.py: `warm_client.py ADDRESS PROGRAM [ARGUMENT]…`.

It passes on its standard streams, arguments, environment and folder, then SIGHUP, SIGINT and SIGTERM, and
ends with the exit code of the copy. It imports built-in modules only: that is why it is fast.
"""

import _signal  # type: ignore[import-not-found]  # typeshed does not have it
import _socket
import marshal
import os
import sys

SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
LENGTH = 4
"""Bytes of the length of a request, and of an exit code."""


def run() -> int | str:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(sys.argv[1])
    except OSError:  # the server has ended: a process of its own takes longer
        program = f"{sys.executable.rpartition('/')[0]}/{sys.argv[2]}"
        os.execv(program, [program, *sys.argv[3:]])
    folder = os.getcwdb()  # noqa: PTH109  # pathlib takes 10 ms
    request = marshal.dumps((sys.argv[2], sys.argv[3:], dict(os.environb), folder, os.getpgrp()))
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(3))
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
    connection.sendmsg([len(request).to_bytes(LENGTH, "big")], [rights])
    connection.sendall(request)
    for number in SIGNALS:
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, lambda number, frame: connection.send(bytes((number,))))
    answer = connection.recv(LENGTH)
    return int.from_bytes(answer, "big") if answer else "the server of warm.py has ended"


sys.exit(run())
