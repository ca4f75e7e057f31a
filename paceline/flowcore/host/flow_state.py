"""A flow as its host knows it: how far it is (flow_phase.py), what it has sent, and what it was promised."""

from dataclasses import dataclass, field

from paceline.flowcore.detect.stalls import StallDetector
from paceline.flowcore.host.bandwidth import BandwidthEstimate, Stretches
from paceline.flowcore.host.flow_phase import Phase, PhasedFlow, all_stalled
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, FlowSpec
from paceline.flowcore.model.units import UNLIMITED, transfer_bytes

CONTROL_PART = 0.01  # of a burst: what a job may send while its launch waits


@dataclass(slots=True, kw_only=True)
class FlowState(PhasedFlow):
    """One flow this host sends."""

    spec: FlowSpec
    path: tuple[str, ...]
    downstream: tuple[FlowId, ...]
    bandwidth: BandwidthEstimate
    iteration: int = 0
    from_bytes: float = 0.0  # of this iteration's bytes: there its burst began ...
    until_bytes: float = field(init=False)  # ... and there it ends
    sent_bytes: float = 0.0  # in this iteration
    counted_bytes: float = 0.0  # of those, already credited to the job's progress
    uncontended: bool = False  # no other job crosses its path, its last grant said
    claimed_slot: int = -1  # when it last was; before the first slot: never
    replanned_slot: int = -1  # when it last made a refused plan anew ...
    tries: int = 0  # ... and how often in that slot
    plan_bps: tuple[float, ...] = ()
    plan_slot: int = 0
    limit: Limit = field(init=False)
    promised_bytes: float = 0.0  # at the rates it was guaranteed, over all iterations, while it had something to send
    stretches: Stretches = field(default_factory=Stretches)  # of the current slot, for the bandwidth estimate
    # What was promised and sent in the current slot.
    _slot_sent_bytes: float = 0.0
    _slot_promised_bits_ns: float = 0.0
    _slot_busy_ns: int = 0
    _promised_ns: int = 0  # until when promises have been added up ...
    _promised_unseen_bytes: float = 0.0  # ... and how much since it was observed
    observed_ns: int = 0

    def __post_init__(self) -> None:
        self.limit = Limit(self.id, UNLIMITED, UNLIMITED)
        self.until_bytes = self.spec.size_bytes

    @property
    def id(self) -> FlowId:
        return self.spec.flow

    @property
    def remaining_bytes(self) -> float:
        """Of its burst."""
        return max(0.0, self.until_bytes - self.sent_bytes)

    @property
    def has_share(self) -> bool:
        """It was given one in this burst."""
        return self.grant is not None and self.grant.share_bps > FLOOR_BPS

    @property
    def has_begun(self) -> bool:
        """Its burst: it has a share, or has sent more than control does."""
        return self.has_share or self.sent_bytes - self.from_bytes > CONTROL_PART * self.burst_bytes

    @property
    def burst_bytes(self) -> float:
        return self.until_bytes - self.from_bytes

    @property
    def ends_iteration(self) -> bool:
        """Its burst is the last of its iteration."""
        return self.until_bytes >= self.spec.size_bytes

    @property
    def volume_bytes(self) -> float:
        """F_i without the plan."""
        return self.iteration * self.spec.size_bytes + self.sent_bytes

    @property
    def final_bytes(self) -> float:
        """F_i at the end of this burst."""
        return self.iteration * self.spec.size_bytes + self.until_bytes

    def planned_bps(self, slot: int) -> float:
        """0 where the plan does not reach."""
        return self.plan_bps[slot - self.plan_slot] if 0 <= slot - self.plan_slot < len(self.plan_bps) else 0.0

    def begin(self, iteration: int, now_ns: int, until_bytes: float = UNLIMITED) -> None:
        """A burst waits: the iteration's bytes until `until_bytes`, or all of them."""
        self.bytes_wait(now_ns)
        self.stalls.begin_burst()
        if iteration != self.iteration or self.ends_iteration:  # after its last burst an iteration begins anew
            self.iteration = iteration
            self.sent_bytes = self.counted_bytes = 0.0
        self.from_bytes = self.sent_bytes
        self.last_until(until_bytes)
        self.plan_bps = ()
        self.start_observing(now_ns)

    def last_until(self, until_bytes: float) -> None:
        """Its burst ends there."""
        self.until_bytes = min(until_bytes, self.spec.size_bytes)

    def start_observing(self, now_ns: int) -> None:
        self.observed_ns = self._promised_ns = now_ns
        self._slot_sent_bytes = self._slot_promised_bits_ns = self._promised_unseen_bytes = 0.0
        self._slot_busy_ns = 0
        self.stretches.begin()

    def add_promise(self, now_ns: int) -> None:
        """Count its rate up to now as promised. Call before the rate changes: a waiting flow was promised nothing."""
        elapsed_ns, self._promised_ns = now_ns - self._promised_ns, now_ns
        promised_bps = min(self.limit.rate_bps, self.bandwidth.line_rate_bps)
        self.stretches.passed(elapsed_ns, promised_bps)
        self._slot_busy_ns += elapsed_ns
        self._slot_promised_bits_ns += promised_bps * elapsed_ns
        self._promised_unseen_bytes += transfer_bytes(promised_bps, elapsed_ns)

    def observe(self, sent_bytes: float, now_ns: int, *, idle: bool = False) -> None:
        """The flow has sent `sent_bytes` in this iteration; `idle`: it has nothing more for the network just now."""
        self.add_promise(now_ns)
        self.observed_ns = now_ns
        fresh_bytes = sent_bytes - self.sent_bytes
        self._slot_sent_bytes += fresh_bytes
        self.sent_bytes = sent_bytes
        waits = self._waits_for_upstream
        self.stretches.sent(fresh_bytes, counts=not waits)
        if not idle and not waits:
            self.promised_bytes += self._promised_unseen_bytes
        self._promised_unseen_bytes = 0.0

    def close_slot(self, slot: int, slot_ns: int) -> None:
        """Sample whether its share was used, and B_i. A flow that had to wait for its upstream flows shows how fast
        those are, not the network (as BBR leaves out samples while the application had nothing to send)."""
        if self._slot_busy_ns > 0:
            promised_bps = self._slot_promised_bits_ns / self._slot_busy_ns
            self.stalls.observe(slot, slot_ns, self._slot_busy_ns, promised_bps, self._slot_sent_bytes)
        if sample := self.stretches.take(counts=not self._waits_for_upstream):
            self.bandwidth.observe(slot, sample)
        self._slot_sent_bytes = self._slot_promised_bits_ns = 0.0
        self._slot_busy_ns = 0

    def clock_set(self, by_ns: int) -> None:
        """Move times along by `by_ns`. What is dated by slots (samples, stalls, grant, plan) is forgotten."""
        self.ready_ns += by_ns
        self.released_ns += by_ns
        self.observed_ns += by_ns
        self._promised_ns += by_ns
        self.bandwidth = BandwidthEstimate(self.bandwidth.line_rate_bps)
        self.stalls = StallDetector()
        self.lose_grant()
        self.plan_bps, self.replanned_slot = (), -1

    @property
    def withdrawn_bytes(self) -> float:
        """F for the switch when its claim is withdrawn: all of the burst, unless it does not move."""
        return self.volume_bytes if self.phase is Phase.STALLED else self.final_bytes

    @property
    def _waits_for_upstream(self) -> bool:
        if self.grant is None:
            return False
        allowed_bytes = self.grant.upstream_bytes + self.spec.window_bytes
        return self.volume_bytes >= allowed_bytes - 1e-6 * self.spec.size_bytes


@dataclass(slots=True)
class JobFlows:
    progress: JobProgress
    flows: list[FlowState] = field(default_factory=list)
    weighable: bool = False  # beside cross traffic its flows can count for several
    unstoppable: bool = False  # what has been launched cannot be held

    @property
    def size_bytes(self) -> float:
        """What this host sends in one iteration."""
        return sum(flow.spec.size_bytes for flow in self.flows)

    @property
    def live(self) -> bool:
        return any(flow.live for flow in self.flows)

    @property
    def uncontended(self) -> bool:
        """Nobody waits for what it has, and it waits for nobody."""
        return all(flow.uncontended for flow in self.flows)

    @property
    def stalled(self) -> bool:
        return all_stalled([flow.phase for flow in self.flows])

    @property
    def remaining_share(self) -> float:
        size = self.size_bytes
        return sum(flow.remaining_bytes for flow in self.flows) / size if size else 0.0

    @property
    def sent_iterations(self) -> float:
        """The bytes of so many iterations have been sent."""
        size = self.size_bytes
        return sum(flow.volume_bytes for flow in self.flows) / size if size else 0.0
