"""What the registrar tells hostd, and why a registration is refused.

    ("new", number, pid, started, uid) with the memory's descriptor      a process is registered
    ("gone", number)                                                     its connection or the process has ended
    ("refused", {reason: count}, ((pid, uid, reason), ...))              since it last said so; the last few by name

Law: a number is one registration's; another registrar begins with other numbers.
"""

from enum import StrEnum

MESSAGE_BYTES = 16_384
MOST_NAMED = 64


class Refusal(StrEnum):
    """Fixed: each is a time series."""

    QUOTA = "quota"  # the user or the process has enough
    PROCESS = "process"  # it has ended, or cannot be seen from here
    SILENT = "silent"  # nothing came in time
    MESSAGE = "message"  # too short, too long, or of another version
    DESCRIPTOR = "descriptor"  # none, or more than one
    SEALS = "seals"  # no memory, or some that could shrink
    SIZE = "size"  # of another size, or with holes
    HELD = "held"  # what the user sent keeps its receivers from ending
    SEGMENT = "segment"  # what is in the memory is no segment, or another process's


WHY = {
    Refusal.QUOTA: "its user or process has registered enough already",
    Refusal.PROCESS: "the process has ended, or is in a pid namespace that cannot be seen from here",
    Refusal.SILENT: "it connected and sent nothing",
    Refusal.MESSAGE: "its message is of another length or version",
    Refusal.DESCRIPTOR: "expected one descriptor with the message",
    Refusal.SEALS: "its descriptor is no memory, or not sealed",
    Refusal.SIZE: "its memory has another size, or holes",
    Refusal.HELD: "what its user sent keeps a process that received it from ending",
    Refusal.SEGMENT: "its memory is no segment of this process",
}
