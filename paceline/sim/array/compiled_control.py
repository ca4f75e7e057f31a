"""ArbitratedControl in C (paceline/sim/kernel/control): the same decisions at the same times, ten times faster.

Here is what is known once per job: which flows it has on which host, what the policy sees of their paths. What happens
to them is C's. A policy's bid is C's own for `paceline`, and the policy's for all others; arbiters that C does not know
(`ccml`'s) are left to ArbitratedControl, and so is everything where there is no compiler.
"""

import ctypes
import weakref
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from paceline.flowcore.allocation.arbiters import Arbiter, max_weight_shares, strict_priority
from paceline.flowcore.allocation.borrowing import FEW_FLOWS, Ints
from paceline.flowcore.host.policy import JobState, Policy
from paceline.flowcore.model.domain import above
from paceline.flowcore.policy.arbitrated import Arbitrated
from paceline.flowcore.policy.paceline import Paceline, weights
from paceline.flowcore.switch.agent import REALLOCATIONS_PER_SLOT
from paceline.sim.array.arbitrated import JOBS_AT_NO_COST, REALLOCATION_NS_PER_JOB
from paceline.sim.array.claims import ArrayFlow, Claims
from paceline.sim.array.control import ControlContext, NetworkJob, Pulse
from paceline.sim.kernel.control.library import MOST_TIERS, BidFunction, declared, rules
from paceline.sim.kernel.library import NUMBER, library
from paceline.sim.kernel.steps_in_c import CompiledSteps

NONE = -1


def _packs(arbiter: Arbiter) -> bool:
    return (
        isinstance(arbiter, partial) and arbiter.func is max_weight_shares and arbiter.keywords == {"weights": weights}
    )


def compiled_control(context: ControlContext) -> "CompiledControl | None":
    """None: C does not know such a policy, or there is no C."""
    policy, steps, compiled = context.policy, context.network.compiled, library()
    if compiled is None or steps is None or not isinstance(policy, Arbitrated) or policy.arbiter is None:
        return None
    if policy.arbiter is not strict_priority and not _packs(policy.arbiter):
        return None
    return CompiledControl(context, steps, declared(compiled))


class CompiledControl:
    def __init__(self, context: ControlContext, steps: CompiledSteps, compiled: ctypes.CDLL) -> None:
        policy, network, clock, topology = context.policy, context.network, context.clock, context.network.topology
        self._claims = Claims(network, policy, context.latency_ns)
        self._ids: dict[int, list[int]] = {}  # by job: its contenders, as C numbers them
        self._pulse = context.pulse.cells
        towers = [tuple(above(tor, topology)) for tor in self._claims.tors]
        switches = {name: number for number, name in enumerate(dict.fromkeys(one for tower in towers for one in tower))}
        self._switches = switches
        tiers = np.full((len(towers), MOST_TIERS), NONE)
        has_parent = np.zeros(len(switches), np.int64)
        for place, tower in enumerate(towers):
            tiers[place, : len(tower)] = [switches[name] for name in tower]
            has_parent[[switches[name] for name in tower[:-1]]] = 1
        options = np.array(
            [
                *(clock.length_ns, clock.length_ns // REALLOCATIONS_PER_SLOT, clock.epoch_ns, context.latency_ns),
                *(getattr(policy, "lends_unused", False), policy.arbiter is strict_priority, FEW_FLOWS),
                *(REALLOCATION_NS_PER_JOB, JOBS_AT_NO_COST, len(towers), len(switches), len(topology.hosts)),
            ],
            np.int64,
        )
        self._bid = _bid_function(policy)
        steps.grown()
        self._control = compiled.control_new(
            steps.network,
            rules(),
            options.ctypes.data,
            self._bid,
            context.pulse.numbers.ctypes.data,
            tiers.ctypes.data,
            has_parent.ctypes.data,
        )
        self._held = (steps, context.pulse)  # what C points to
        weakref.finalize(self, compiled.control_free, self._control)
        self._compiled = compiled
        self._ready, self._done, self._ended = (
            partial(getattr(compiled, f"control_{name}"), self._control)
            for name in ("ready", "done", "iteration_ended")
        )
        self.happen = partial(compiled.control_happen, self._control)
        self._run = partial(compiled.control_run, self._control)

    @property
    def peak_ratio(self) -> float:
        """The largest part of a link that shares took, where few jobs met."""
        return float(self._compiled.control_peak_ratio(self._control))

    @property
    def decisions_ns(self) -> Sequence[int]:
        taken_ns = ctypes.POINTER(NUMBER)()
        count = self._compiled.control_decisions(self._control, ctypes.byref(taken_ns))
        return array("q", taken_ns[:count])

    # ---- What happens ----

    def joined(self, job: NetworkJob, now_ns: int) -> None:
        self._claims.join(job, now_ns)
        parts, ids, add = self._claims.parts_of_job[job.index].values(), dict[int, int](), self._compiled
        for part in parts:
            contender = part.contender
            if id(contender) not in ids:
                name = contender.name.encode()
                ids[id(contender)] = add.control_add_contender(self._control, name, contender.level, contender.alone_ns)
            progress = part.progress
            job_facts = part.size_bytes, progress.alone_comm_ns, progress.weight, float(progress.iterations)
            tor = self._claims.tors.index(part.tor)
            owner = ids[id(contender)]
            add.control_add_part(self._control, part.row, owner, tor, *job_facts, now_ns)
            for flow in part.flows:
                self._add(flow, part.row)
        self._ids[job.index] = [*ids.values()]

    def _add(self, flow: ArrayFlow, part: int) -> None:
        seen = _numbers(flow.seen)
        passes = _numbers([self._switches[name] for name in flow.passes if name in self._switches])
        self._compiled.control_add_flow(
            *(self._control, flow.number, part, flow.host, flow.nic_bps, flow.size_bytes),
            *(seen.ctypes.data, len(seen), passes.ctypes.data, len(passes)),
        )

    def left(self, job: NetworkJob, now_ns: int) -> None:
        rows = _numbers([flow.number for part in self._claims.parts_of_job[job.index].values() for flow in part.flows])
        ids = _numbers(self._ids.pop(job.index))
        self._claims.leave(job)
        addresses = (rows.ctypes.data, len(rows), ids.ctypes.data, len(ids))
        self._compiled.control_leave(self._control, *addresses, now_ns)

    def ready(self, job: NetworkJob, numbers: list[int], iteration: int, now_ns: int) -> None:
        self._ready((NUMBER * len(numbers))(*numbers), len(numbers), now_ns)

    def done(self, job: NetworkJob, number: int, now_ns: int) -> None:
        self._done(number, now_ns)

    def iteration_ended(self, job: NetworkJob, host: str, now_ns: int) -> None:
        part = self._claims.parts_of_job[job.index].get(host)
        if part is not None:
            self._ended(part.row, now_ns)

    # ---- Time ----

    def next_ns(self) -> int:
        return self._pulse[Pulse.NEXT_NS]

    def run(self, now_ns: int, marked: Sequence[int]) -> None:
        self._run(now_ns)  # the network has what is marked


def _numbers(of: Sequence[int]) -> Ints:
    return np.array(of, np.int64)


def _bid_function(policy: Policy) -> Any:
    """The policy's own, to be called by C; none for `paceline`, whose bid C has, without options."""
    if type(policy).bid is Paceline.bid and not policy.chosen:
        return BidFunction()

    def bid(progress: Any, left: float, done: float, ready_ns: int, found: Any) -> None:
        bids = policy.bid(JobState(progress.contents, left, ready_ns, sent_iterations=done))
        found.contents.urgency, found.contents.compute_ns, found.contents.remaining_ns = bids

    return BidFunction(bid)
