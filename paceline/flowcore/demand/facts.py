"""What is known of a job at one moment, over all its processes on this host. Volumes are bytes on the wire."""

from collections.abc import Mapping
from typing import NamedTuple

from paceline.flowcore.model.patterns import Role

# (role, target) and (role, source): a host may be worker and server of the same job.
Ends = tuple[Role, str]

# A connection that carries less than this part of the job's traffic is control.
LEAST_PART = 0.01


class JobFacts(NamedTuple):
    iteration: int  # how many have ended
    announced: bool  # bytes of the current one have been handed over for sending, and more than a few
    counts_early: bool  # the iteration counter moves before all of the iteration is sent
    members: int  # ranks in all
    sent_bytes: Mapping[Ends, float]  # since the job was first seen, by role and target
    received_bytes: Mapping[Ends, float]  # by role and source, from hosts that feed the job
    resting: bool = False  # nothing has been sent for a while
    rested: bool = False  # ... or had been, since these facts were last gathered, and then something was
    connections: frozenset[int] = frozenset()  # that carry its data, by cookie
    # By the shim's count, in the current iteration; all 0: it does not count.
    announced_bytes: float = 0.0  # handed over for sending ...
    completed_bytes: float = 0.0  # ... of those, by calls that have come to their end (another count, of wire bytes)
    outstanding: bool = False  # some have not
    expected_bytes: float = 0.0  # in all, as in the last one
    waiting_bytes: Mapping[Ends, float] = {}  # that sockets hold, and the network has not taken
    # Since the job began, by the shim's count; 0: it has none.
    counted_bytes: float = 0.0  # sent ...
    marked_bytes: float = 0.0  # ... when its processes last marked the end of an iteration
    to_send_bytes: float = 0.0  # for what it has launched, if it goes round a ring
    launched_bytes: float = 0.0  # as it asked for it: what `expected_bytes` is of one iteration
    # Dates of the shim's own clock; 0: it has none.
    began_ns: int = 0  # the iteration in hand
    announced_ns: int = 0  # bytes were last handed over for sending ...
    completed_ns: int = 0  # ... and came to their end
    moved_ns: int = 0  # by hostd's clock: bytes were last seen to move
    held: bool = False  # a launch of it waits at the gate: bytes wait, and none can move
    seldom: bool = False  # it is looked at: what the next iteration sent may be counted with the last one's

    @property
    def idle(self) -> frozenset[Ends]:
        """Their sockets hold nothing."""
        return frozenset(ends for ends, size in self.waiting_bytes.items() if not size)
