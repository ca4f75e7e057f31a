"""A process with one connection, told on standard input what to do; it answers with a line each time.

hostile_job.py PORT [UID]

hold      sends from a page that does not arrive: the socket's lock is kept until `let go`
let go    the page arrives
close     closes the connection, which has SO_LINGER for a minute and data that its peer does not take
"""

import ctypes
import os
import socket
import struct
import sys
import threading

from tests.hostd.missing_page import MissingPage

SO_SNDBUFFORCE, PR_SET_DUMPABLE = 32, 4


def main() -> None:
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 60))
    connection.setblocking(False)
    try:
        while True:
            connection.send(bytes(1 << 16))
    except BlockingIOError:
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 26)  # there is room for one page more
    page = MissingPage()
    if len(sys.argv) > 2:
        os.setuid(int(sys.argv[2]))
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # or it would count as root's
    print(connection.fileno(), flush=True)
    for line in sys.stdin:
        match line.strip():
            case "hold":
                threading.Thread(target=connection.send, args=(page.memory, socket.MSG_DONTWAIT), daemon=True).start()
            case "let go":
                page.arrive()
            case "close":
                connection.close()
        print("done", flush=True)


main()
