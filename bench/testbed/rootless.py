"""Networks without root: in a new user namespace a process is root over the networks that it makes there.

The kernel moves only a single-threaded process into a new user namespace, and by the time a command knows that it needs
one, libraries have started threads. So the command execs itself again through this file, which does nothing else: it
enters the user namespace, maps the user to root there, and execs the original command line.
"""

import ctypes
import os
import socket
import struct
import sys
from fcntl import ioctl
from pathlib import Path

CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
CAP_NET_ADMIN = 12
CAP_SYS_ADMIN = 21
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_REQUIRED = 1 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN


def may_make_networks() -> bool:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return int(effective, 16) & _REQUIRED == _REQUIRED


def ensure_networks() -> None:
    """Returns if this process may make networks; otherwise it starts anew in a user namespace, where it may."""
    if not may_make_networks():
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, __file__, *sys.orig_argv[1:]])


def enter_user_namespace() -> None:
    """From here on this process may make networks, and reaches none of those outside."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    # A network namespace as well: to return to a namespace takes root over it.
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")  # the kernel's condition for mapping a group without privilege
    (own / "gid_map").write_text(f"0 {group} 1")
    (own / "uid_map").write_text(f"0 {user} 1")
    _loopback_up()


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


if __name__ == "__main__":
    try:
        enter_user_namespace()
    except OSError as error:
        why = f"no root, and no user namespace either ({error.strerror or error})"
        hint = "run it as root, or allow them (Ubuntu: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
        print(f"paceline: {why}: {hint}; `paceline demo --simulate` needs neither", file=sys.stderr)
        sys.exit(2)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
