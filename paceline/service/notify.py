"""What systemd is told: datagrams of KEY=value lines to the socket in NOTIFY_SOCKET (sd_notify(3)).

    READY=1      start-up is over, or a reload
    RELOADING=1  with MONOTONIC_USEC, so that a late READY of an earlier reload is not taken for this one's
    WATCHDOG=1   still alive; after WATCHDOG_USEC without one, systemd kills and restarts
    STOPPING=1   shutting down
    STATUS=…     one line for `systemctl status`

The watchdog is pinged only while the daemon's own loop makes progress: a process whose event loop turns but decides
nothing is as dead as one that hangs. Without systemd all of this does nothing.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping

from paceline.flowcore.model.fields import printable

LOOKS_WHILE_LATE = 50  # in an interval: one stall at a ping is no reason to be killed
SEND_TIMEOUT_S = 0.1  # systemd's queue may be full; a status is not worth a missed slot


class Notify:
    """`address` as in NOTIFY_SOCKET: a path, or @name for an abstract socket; None: not under systemd."""

    def __init__(self, address: str | None) -> None:
        self.address = address

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Notify":
        return cls(environment.get("NOTIFY_SOCKET") or None)

    def ready(self, status: str = "running") -> bool:
        return self._send("READY=1", _status(status))

    def status(self, status: str) -> bool:
        return self._send(_status(status))

    def reloading(self) -> bool:
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> bool:
        return self._send("STOPPING=1", _status("stopping"))

    def ping_watchdog(self) -> bool:
        return self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> bool:
        """Whether it was sent. Never raises: a daemon works as well without a listener."""
        if self.address is None:
            return False
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(SEND_TIMEOUT_S)
                sender.sendto("\n".join(lines).encode(errors="replace"), address)
        except (OSError, ValueError):  # ValueError: an address with a zero byte in it
            return False
        return True


def _status(text: str) -> str:
    return f"STATUS={printable(text)}"


def watchdog_interval(environment: Mapping[str, str] = os.environ) -> float | None:
    """Seconds after which systemd kills the daemon; None: it does not watch this process."""
    usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if pid and pid != str(os.getpid()):
        return None  # inherited by a child process: systemd watches the parent
    return int(usec) / 1e6 if usec.isascii() and usec.isdigit() and int(usec) > 0 else None


async def ping_watchdog_while_alive(notify: Notify, interval_s: float | None, alive: Callable[[], bool]) -> None:
    """Pings twice per interval, as sd_watchdog_enabled(3) advises, as long as `alive()`, and as soon as it is again;
    runs until cancelled."""
    while interval_s is not None:
        is_alive = alive()
        if is_alive:
            notify.ping_watchdog()
        await asyncio.sleep(interval_s / (2 if is_alive else LOOKS_WHILE_LATE))
