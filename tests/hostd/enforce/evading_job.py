"""Sends to an address, and sets a priority of its own every 10 ms: evading_job.py ADDRESS PORT SECONDS-BETWEEN"""

import socket
import sys
import threading
import time

CHUNK = bytes(1 << 18)


def main() -> None:
    one = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    one.sendall(CHUNK * 4)
    print("sending", flush=True)

    def leave() -> None:
        while True:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
            time.sleep(float(sys.argv[3]))

    threading.Thread(target=leave, daemon=True).start()
    while True:
        one.sendall(CHUNK)


main()
