"""A network within this host, whose two addresses are those of two hosts elsewhere, and a connection between them.

network_within.py UID

As UID 0 it is a namespace as containers have it; another user makes a user namespace for it. The process that sends is
not in it: it was handed the socket.
"""

import ctypes
import encodings.idna  # noqa: F401  # what create_connection imports, and other users may not read
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFADDR, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x8914, 1
LOCAL, REMOTE = "10.97.0.1", "10.97.0.2"
ENOUGH = bytes(1_000_000)


def request(name: str, rest: bytes) -> bytes:
    return name.encode().ljust(16, b"\0") + rest.ljust(24, b"\0")


def main() -> None:
    uid = int(sys.argv[1])
    if uid:
        os.setgroups([]), os.setgid(uid), os.setuid(uid)
    parent, child = socket.socketpair()
    if not os.fork():
        call = ctypes.CDLL(None, use_errno=True)
        if call.unshare(CLONE_NEWNET | (CLONE_NEWUSER if uid else 0)):
            sys.exit(os.strerror(ctypes.get_errno()))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for name, address in (("lo", LOCAL), ("lo:1", REMOTE)):
                in_c = struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(address))
                fcntl.ioctl(asked, SIOCSIFADDR, request(name, in_c))
            fcntl.ioctl(asked, SIOCSIFFLAGS, request("lo", struct.pack("=H", IFF_UP)))
        server = socket.create_server((REMOTE, 0))
        ours = socket.create_connection(server.getsockname(), source_address=(LOCAL, 0))
        socket.send_fds(child, [b"x"], [ours.fileno()])
        ours.close()  # the connection ends with the process that has it now, and this one with the connection
        theirs, _ = server.accept()
        while theirs.recv(1 << 20):
            pass
        os._exit(0)
    child.close()
    [descriptor] = socket.recv_fds(parent, 1, 1)[1]
    connection = socket.socket(fileno=descriptor)
    connection.sendall(ENOUGH)
    print("sent", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
