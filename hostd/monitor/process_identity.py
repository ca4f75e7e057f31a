"""Which process a pid names, and which user's it is. Law: neither is remembered without being asked again.

A pid is given to another process when its own has ended: pid and start time together name one. And `exec` of a setuid
program leaves both as they are and makes the process another user's, with sockets that are no job's.
"""

from typing import NamedTuple

from nccl_shim.segment.liveness import owner_of, start_ticks


class ProcessIdentity(NamedTuple):
    start_ticks: int
    uid: int  # of its entry in /proc; root's where the process has rights that its user has not


def identity_of(pid: int) -> ProcessIdentity | None:
    """None: it has ended."""
    started, uid = start_ticks(pid), owner_of(pid)
    return None if started is None or uid is None else ProcessIdentity(started, uid)
