"""The two ends of a job, each a process of its own.

job.py sink ADDRESS PORT          takes everything; a line per connection that ended: "fin" or what went wrong
job.py send ADDRESS PORT COUNT    keeps COUNT connections full; "close" on standard input closes the first
"""

import contextlib
import select
import socket
import sys

CHUNK = bytes(1 << 18)


def sink(address: str, port: int) -> None:
    listener = socket.create_server(
        (address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET, reuse_port=True
    )
    print("listening", flush=True)
    unused = bytearray(1 << 20)
    sockets: dict[int, socket.socket] = {}
    waiting = select.epoll()
    waiting.register(listener, select.EPOLLIN)
    while True:
        for number, _ in waiting.poll():
            if number == listener.fileno():
                connection = listener.accept()[0]
                sockets[connection.fileno()] = connection
                waiting.register(connection, select.EPOLLIN)
                continue
            try:
                if sockets[number].recv_into(unused, 0, socket.MSG_TRUNC):
                    continue
                print("fin", flush=True)
            except OSError as error:
                print(error.strerror, flush=True)
            sockets.pop(number).close()


def send(address: str, port: int, count: int) -> None:
    sockets = [socket.create_connection((address, port)) for _ in range(count)]
    for one in sockets:
        one.sendall(CHUNK * 4)  # enough to be taken for a data socket
    print("sending", flush=True)
    while sockets:
        ready, writable, _ = select.select([sys.stdin], sockets, [])
        if ready and sys.stdin.readline() == "close\n":
            sockets.pop(0).close()
            print("closed", flush=True)
            continue
        for one in writable:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.send(CHUNK)


if __name__ == "__main__":
    if sys.argv[1] == "sink":
        sink(sys.argv[2], int(sys.argv[3]))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
