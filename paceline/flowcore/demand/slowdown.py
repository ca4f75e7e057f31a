"""How much slower a job is than alone, told from what is seen of it while other jobs run beside it.

    v = max over links l of  Σ_f G_f / u_l       the exchange alone: the flows f that are known, on the links they cross
    L = c + max(b, v)                            c computing before bursts, b computing beside them
    F                                            as long as the fastest tenth of iterations takes

    T⁰ ≈ F    if L ≤ F ≤ (1 + SLACK)·L           some iterations were alone, and F has what bytes ÷ rate leaves out
    T⁰ ≈ L    else: even the fastest met other jobs
    ŝ  = max(1, T / T⁰)                          T: the mean iteration

Where not all flows of the exchange are known, v may be too small (how many other workers a parameter server answers is
known on its host alone), and T⁰ ≈ max(L, F).
"""

from collections.abc import Mapping

from paceline.flowcore.demand.timing import IterationTimes
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import transfer_ns

SLACK = 0.04


def link_bytes(sizes: Mapping[FlowId, float], topology: Topology) -> dict[str, float]:
    """What an iteration sends over each link."""
    found: dict[str, float] = {}
    for flow, size_bytes in sizes.items():
        for link in topology.path(flow.source, flow.target, str(flow)):
            found[link] = found.get(link, 0.0) + size_bytes
    return found


def exchange_alone_ns(sizes: Mapping[FlowId, float], topology: Topology) -> float:
    """v"""
    loads = link_bytes(sizes, topology)
    return max((float(transfer_ns(size, topology.links[link].capacity_bps)) for link, size in loads.items()), default=0)


def alone_ns(times: IterationTimes, exchange_ns: float, all_flows_known: bool = True) -> float | None:
    """T⁰; None while it is not known how long the job computes."""
    if times.computing_ns is None:
        return None
    least_ns = times.computing_ns + max(times.beside_ns, exchange_ns)
    if not all_flows_known:
        return max(least_ns, times.fastest_ns)
    return times.fastest_ns if least_ns <= times.fastest_ns <= (1 + SLACK) * least_ns else least_ns


def slowdown(iteration_ns: float, alone: float) -> float:
    """ŝ"""
    return max(1.0, iteration_ns / alone)
