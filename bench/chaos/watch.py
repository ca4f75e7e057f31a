"""Looks at hosts during a run: at the kernel, from the loop, and at the status of their daemons, each from a thread of
its own, because a hostd that stands still answers late or never.
"""

import time
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import psutil

from bench.chaos.timeline import HostTimeline, KernelLook, StatusLook
from bench.jobs.daemons import DaemonProcess
from bench.testbed.namespace import Namespace
from bench.testbed.network import DATA_IFNAME
from hostd.enforce.htb_device import MAJOR
from hostd.kernel.htb_class import TCMSG
from hostd.kernel.netlink import Netlink
from hostd.kernel.qdisc_tree import RTM_GETQDISC, TC_H_ROOT

KERNEL_S = 0.02
STATUS_S = 0.3


class HostWatch:
    """Use as a context manager; times are seconds of the monotonic clock since `origin_s`."""

    def __init__(self, namespace: Namespace, daemon: DaemonProcess, origin_s: float) -> None:
        self.daemon, self._origin_s = daemon, origin_s
        self.seen = HostTimeline()
        self.children: set[tuple[int, float]] = set()  # that a hostd here ever had: pid and time of its start
        self._ifindex = namespace.index_of(DATA_IFNAME)
        with namespace.enter():
            self._netlink = Netlink()
        self._looked_s = 0.0
        self._ended = Event()
        self._thread = Thread(target=self._ask, daemon=True)

    def __enter__(self) -> "HostWatch":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()
        self._netlink.close()

    def look(self) -> None:
        """At the kernel, where it is time."""
        now_s = time.monotonic()
        if now_s >= self._looked_s + KERNEL_S:
            self._looked_s = now_s
            self.seen.kernel.append(KernelLook(now_s - self._origin_s, self.root() == MAJOR))

    def root(self) -> int:
        """The handle of the device's root qdisc."""
        for answer in self._netlink.dump(RTM_GETQDISC, TCMSG.pack(0, self._ifindex, 0, 0, 0)):
            _, ifindex, handle, parent, _ = TCMSG.unpack_from(answer)
            if ifindex == self._ifindex and parent == TC_H_ROOT:
                return int(handle)
        return 0

    def _ask(self) -> None:
        while not self._ended.wait(STATUS_S):
            with suppress(OSError):
                status = self.daemon.status()
                self.seen.status.append(look_of(status, time.monotonic() - self._origin_s))
            with suppress(psutil.Error):
                for child in psutil.Process(self.daemon.pid).children(recursive=True):
                    self.children.add((child.pid, child.create_time()))


def look_of(status: dict[str, Any], at_s: float) -> StatusLook:
    switch = status["switch"]
    return StatusLook(
        at_s,
        status["mode"] == "enforce" and bool(status["guardian_pid"]) and status["backend"] != "observe",
        switch["connected"] and not switch["deciding_alone"],
        frozenset(job["name"] for job in status["jobs"] if job["controlled"]),
        frozenset(job["name"] for job in status["jobs"] if job["left_to_tcp"]),
    )
