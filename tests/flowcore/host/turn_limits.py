"""Limits as a host sets them for a job that has the turn, rests, or waits for another host's job."""

from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, Role

NIC = 1e9
A, B, C = (FlowId(job, "h0", "h1", Role.RING) for job in "abc")
B2 = FlowId("b", "h0", "h2", Role.RING)


def has(flow: FlowId, part: float = 1.0) -> Limit:
    return Limit(flow, part * NIC, NIC)


def rests(flow: FlowId) -> Limit:
    return Limit(flow, FLOOR_BPS, NIC)


def shut(flow: FlowId) -> Limit:
    """Another host's job has the link."""
    return Limit(flow, FLOOR_BPS, FLOOR_BPS)
