"""What an enforcement backend is.

    attach     these are the flow's sockets now         on change
    apply      these flows' limits                      every slot, one batched call
    refresh    devices come and go                      about once a second, and after trouble; what could not be done
                                                        when it was asked for is tried again
    watch_losses  who loses packets is helped           several times a second

Law: jobs end, sockets close and devices vanish at any moment. None of that is an error of ours, so nothing of it is
raised into the loop: it comes back as Trouble, to be counted. Whatever a backend changes is in the journal first, so
that anybody can take it back; `close` takes it back here.

Rates count bytes on the wire, Ethernet headers included, as the capacity of a link does. UNLIMITED lifts a limit.
Limits are never below a floor: slower than that a single bundle of segments is a debt that outlives the limit. A
guarantee of the floor or less is none: what the flow was promised before is free for the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hostd.kernel.sockets import DataSocket
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that could not be enforced, and why; for a counter and the log."""

    flow: FlowId | None
    reason: str


class CannotEnforce(Exception):
    """The backend cannot work on this host; str() says why and what to change."""


class Backend(Protocol):
    name: str

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[Trouble]:
        """Controls exactly these sockets of the flow from now on; those that left are as they were before."""

    def detach(self, flow: FlowId) -> list[Trouble]:
        """Forgets the flow; its sockets are as they were before."""

    def apply(self, limits: Sequence[Limit]) -> list[Trouble]:
        """Sets them; a flow that is not attached yet gets its limit when it is."""

    def refresh(self) -> list[Trouble]:
        """Sets up what appeared, forgets what vanished, takes the sockets that could not be taken before."""

    def watch_losses(self) -> list[Trouble]:
        """Gives sockets on lossy paths what helps them, and takes it back from those on others (transport.py)."""

    def read_back(self) -> dict[FlowId, Limit]:
        """What the kernel says it holds each attached flow to; a flow of which no socket is held is not there."""

    def close(self) -> list[Trouble]:
        """Restores everything."""
