"""Which link of its path leaves a flow the least, told from what the host was told.

A grant has one number of each kind for the whole path: the room, min_l (u_l - b_l), and the price, Σ_l b_l/u_l, both
without the flow's own plan. But only this host sends into its NIC, so b of that link are its other flows' plans and
the cross traffic that it reports, and what is left of the price is the other links':

    the NIC                 if its room is the path's
    another link l          if it can have that room at no more than those links' price: 0 ≤ 1 - room/u_l ≤ Σ

Where several can, the host does not know which of them it is, and says so. A host that decides alone knows its NIC
and nothing beyond.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.host.flow_state import FlowState

CLOSE = 0.01  # rates this close, as a part of a link, are the same


class Bottleneck(NamedTuple):
    """`links`: one if it is known, several if it is one of them, none if nothing is known; `why` it is so."""

    links: tuple[str, ...]
    why: str
    room_bps: float | None = None  # what other flows leave of it in this slot
    price: float | None = None  # b/u: the part of it that other flows have been promised


def bottleneck(agent: HostAgent, flow: FlowState, capacity_bps: Mapping[str, float], slot: int) -> Bottleneck:
    """In this slot, as far as this host can tell."""
    if not flow.live:
        return Bottleneck((), "it has nothing to send")
    if flow.grant is None:
        return Bottleneck((), "no answer for it in this iteration yet")
    offset = slot - flow.grant_slot
    if not 0 <= offset < len(flow.grant.load):
        return Bottleneck((), "the last answer says nothing about this slot")
    room_bps, price = flow.grant.available_bps[offset], flow.grant.load[offset]
    nic = agent.nic.name
    if agent.isolated or agent.policy.sees(flow.path) == (nic,):
        why = "its own NIC is the only link that is asked about"
        return Bottleneck((nic,), ", and ".join(filter(None, (why, _beside_others(agent)))), room_bps, price)
    nic_price = min(price, 1.0, (_planned_bps(agent, flow, slot) + agent.others_bps) / agent.nic_bps)
    if abs(1 - room_bps / agent.nic_bps - nic_price) <= CLOSE:
        why = _beside_others(agent) or _shared(nic_price)
        return Bottleneck((nic,), why, room_bps, nic_price)
    beyond = [link for link in flow.path if link != nic]
    needed = {link: max(0.0, 1 - room_bps / capacity_bps[link]) for link in beyond}
    able = [
        link
        for link in beyond
        if room_bps <= (1 + CLOSE) * capacity_bps[link] and needed[link] <= price - nic_price + CLOSE
    ] or beyond
    prices = {round(needed[link], 2) for link in able}
    why = _shared(needed[able[0]]) if len(able) == 1 else "the switch tells a path's sum, not each link's part"
    return Bottleneck(tuple(able), why, room_bps, needed[able[0]] if len(prices) == 1 else None)


def _planned_bps(agent: HostAgent, flow: FlowState, slot: int) -> float:
    """What the host's other flows have been promised in this slot."""
    return sum(other.planned_bps(slot) for other in agent.live_flows() if other is not flow and other.claimed)


def _beside_others(agent: HostAgent) -> str:
    part = agent.others_bps / agent.nic_bps
    return f"traffic of no job takes {part:.0%} of it" if part > CLOSE else ""


def _shared(price: float) -> str:
    return (
        "no other link leaves it less" if price > CLOSE else "other flows want nothing of its path: it is the narrowest"
    )
