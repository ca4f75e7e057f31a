"""The fluid network of paceline.sim.reference.network over arrays: one entry per flow, one pass per step.

The same three limits bind a flow: its host's HTB, max-min sharing of the links, and what its upstream flows have
delivered. What differs is how time passes: in steps (kernel/steps.py), compiled where there was a C compiler.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from paceline.flowcore.allocation.aggressiveness import Aggressiveness, piece_bytes
from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.model.patterns import FlowId, FlowSpec, grain_bytes
from paceline.flowcore.model.topology import Topology
from paceline.sim.kernel.feeds import feeds_of
from paceline.sim.kernel.flow_table import NetworkTable
from paceline.sim.kernel.library import library
from paceline.sim.kernel.steps import NumpySteps, Steps
from paceline.sim.kernel.steps_in_c import CompiledSteps
from paceline.sim.parameters import LOCAL_BPS


class ArrayNetwork(NetworkTable):
    def __init__(
        self,
        topology: Topology,
        step_ns: int | None,
        *,
        start_after: bool = False,
        contention: float = 0.0,
        aggressiveness: Aggressiveness | None = None,
    ) -> None:
        self.topology = topology
        self.links = tuple(topology.links)
        capacity_bps = np.array([*(topology.links[name].capacity_bps for name in self.links), np.inf])
        super().__init__(
            capacity_bps, step_ns, start_after=start_after, contention=contention, aggressiveness=aggressiveness
        )
        self.link_index = {name: index for index, name in enumerate(self.links)}
        self.specs: list[FlowSpec | None] = []  # by row
        self.numbers: dict[FlowId, int] = {}  # rows
        self._free: list[int] = []  # rows
        self._carried_bytes: Floats = np.zeros(len(self.capacity_bps))
        compiled = library()
        self._steps: Steps = NumpySteps(self) if compiled is None else CompiledSteps(self, compiled)
        self.run = self._steps.run  # what a driver calls all the time

    @property
    def compiled(self) -> CompiledSteps | None:
        """Its steps, where they are in C."""
        return self._steps if isinstance(self._steps, CompiledSteps) else None

    @property
    def used_rows(self) -> int:
        return len(self.specs)

    # ---- Flows come and go ----

    def add(self, specs: Iterable[FlowSpec], job: int) -> Ints:
        """Enter a job's flows; returns their numbers."""
        specs = tuple(specs)
        paths = [self.topology.path(s.flow.source, s.flow.target, str(s.flow)) for s in specs]
        longest, hops = max(map(len, paths), default=0), self.path.shape[1]
        missing = len(specs) - len(self._free)
        if longest > hops or len(self.specs) + missing > self.rows:
            self.grow(max(self.rows, 2 * (len(self.specs) + len(specs))), max(hops, longest))
        numbers = np.array([self._enter(spec, path) for spec, path in zip(specs, paths, strict=True)], np.int64)
        self.job[numbers] = job
        self.put_feeds(specs[0].flow.job, feeds_of(specs, self.numbers))
        self._steps.grown()
        return numbers

    def _enter(self, spec: FlowSpec, path: Sequence[str]) -> int:
        if self._free:
            number = self._free.pop()
            self.specs[number] = spec
        else:
            number = len(self.specs)
            self.specs.append(spec)
        self.numbers[spec.flow] = number
        self.size[number], self.window[number] = spec.size_bytes, spec.window_bytes
        self.grain[number] = grain_bytes(spec) if self.start_after else 0.0
        weighted = self.aggressiveness is not None and math.isfinite(spec.size_bytes)
        self.piece[number] = piece_bytes(spec.size_bytes) if weighted else 0.0
        self.sent[number] = self.goal[number] = self.rate[number] = self.firm[number] = 0.0
        self.ceiling[number] = math.inf if path else LOCAL_BPS
        self.stands[number], self.mark[number] = 1.0, math.inf
        self.live[number] = self.paced[number] = False
        self.path[number] = self.beyond
        self.path[number, : len(path)] = [self.link_index[name] for name in path]
        return number

    def remove(self, job: str, numbers: Ints) -> None:
        self._carried_bytes += self._over_links(numbers, self.sent[numbers])
        for number in numbers.tolist():
            del self.numbers[self.flow(number)]
            self.specs[number] = None
        self.live[numbers] = False
        self._free += numbers.tolist()
        self.drop_feeds(job)
        self._steps.changed()

    def start(self, number: int) -> None:
        """The flow has one more iteration's bytes waiting."""
        self.cells.goal[number] += float(self.size[number])
        self.cells.live[number] = True
        self._steps.changed()

    def stop(self, number: int) -> None:
        self.live[number] = False
        self.rate[number] = 0.0
        self._steps.changed()

    def limit(self, number: int, firm_bps: float, ceiling_bps: float, stands_for: float = 1.0) -> None:
        cells = self.cells
        cells.firm[number], cells.ceiling[number], cells.stands[number] = firm_bps, ceiling_bps, stands_for
        cells.paced[number] = ceiling_bps < math.inf
        self._steps.changed()

    def move_ceilings(self, numbers: Ints, ceiling_bps: Floats) -> None:
        """Of many flows; what they are guaranteed stays."""
        self.ceiling[numbers], self.paced[numbers] = ceiling_bps, ceiling_bps < math.inf
        self._steps.changed()

    def cap(self, number: int, rate_bps: float) -> None:
        """The flow offers no more than this, and no host paces it."""
        self.ceiling[number] = rate_bps

    def flow(self, number: int) -> FlowId:
        spec = self.specs[number]
        assert spec is not None
        return spec.flow

    @property
    def now_ns(self) -> int:
        return self._steps.now_ns

    @property
    def sending(self) -> int:
        """How many flows have bytes waiting."""
        return self._steps.sending()

    @property
    def steps(self) -> int:
        return self._steps.steps

    @property
    def flow_steps(self) -> int:
        """Σ over steps of the flows that were sending."""
        return self._steps.flow_steps

    @property
    def remaining(self) -> Floats:
        return np.maximum(self.goal - self.sent, 0.0)

    def carried_bytes(self) -> Floats:
        """Over each link, since the beginning."""
        present = np.array(list(self.numbers.values()), int)
        return (self._carried_bytes + self._over_links(present, self.sent[present]))[:-1]

    def take_in(self, carried_bytes: Floats) -> None:
        """Links carried this, too, of flows that are not here."""
        self._carried_bytes[:-1] += carried_bytes

    def _over_links(self, numbers: Ints, volume: Floats) -> Floats:
        hops = self.path[numbers]
        carried = np.bincount(hops.ravel(), np.repeat(volume, hops.shape[1]), len(self.capacity_bps))
        return carried.astype(np.float64, copy=False)
