"""The claims on a switch's links: each flow's plan in the load table, its volume F, and its job's demand.

State is soft: all of it came in a report, and goes when the reports stop. A flow's F outlives its claim, because the
flows downstream must learn that it is through; a job's demand outlives its iterations, so that the switch knows at the
first byte how long the exchange takes alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Claim, Grant, Report, Withdrawal
from paceline.flowcore.model.domain import Domain
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.switch.job_demand import JobDemand
from paceline.flowcore.switch.load_table import LoadTable

# After this many slots of silence (a minute at 60 ms) a job is gone.
JOB_MEMORY_SLOTS = 1000

NO_SHARE = (0.0, 0.0, 1.0)  # where the policy has no arbitration

LEAST_SCALED_BYTES = 1.0  # no flow is smaller


@dataclass(slots=True)
class _KnownFlow:
    claim: Claim
    reporter: str  # its host, or its host's ToR
    demand: JobDemand
    accepted: bool = True  # its last plan


class Claims:
    def __init__(self, domain: Domain, horizon: int, *, tells_uncontended: bool = False) -> None:
        """`tells_uncontended`: hosts leave alone the jobs that nobody competes with."""
        self.table = LoadTable(domain.table_bps, horizon)
        self._domain = domain
        self._flows: dict[FlowId, _KnownFlow] = {}
        self._volume_bytes: dict[FlowId, float] = {}  # F with this slot's plan
        self._jobs: dict[str, JobDemand] = {}
        self._tells_uncontended = tells_uncontended
        self._jobs_on: dict[str, set[str]] = {}  # each link: the jobs that are remembered ...
        self._links_of: dict[str, set[str]] = {}  # ... and the other way round
        self._has_links: dict[str, bool] = {}  # to itself: judged once for all flows of a job
        self._left_alone: dict[FlowId, str] = {}  # flows that were told that nobody competes, and who reports them
        self._met: set[str] = set()  # jobs that had a link to themselves until now
        self._swept_slot = 0

    def __contains__(self, flow: FlowId) -> bool:
        return flow in self._flows

    @property
    def quiet(self) -> bool:
        """Nobody claims anything."""
        return not self._flows and not self.table.has_others

    @property
    def empty(self) -> bool:
        """And no job is remembered."""
        return self.quiet and not self._jobs

    def remembers(self, job: str) -> bool:
        """Whether flows of this job have left something here."""
        return job in self._jobs

    def remembered_flows(self) -> tuple[FlowId, ...]:
        """Those with a claim, and those of their jobs that had one."""
        return tuple(self._volume_bytes)

    def urgency(self, flow: FlowId) -> float:
        """Of its bid, while it has a claim."""
        return self._flows[flow].claim.bid.urgency

    def reporter(self, flow: FlowId) -> str:
        return self._flows[flow].reporter

    def path_of(self, flow: FlowId) -> tuple[str, ...]:
        """As it was last claimed; nothing where that is forgotten."""
        demand = self._jobs.get(flow.job)
        return () if demand is None else demand.path_of(flow)

    # ---- What reports say ----

    def take(self, report: Report, slot: int) -> None:
        """Note every claim of a report, then enter its plans together."""
        for claim in report.claims:
            self._note(claim, report.sender, slot)
        plans = {claim.flow: claim.plan_bps for claim in report.claims if claim.plan_bps}
        for flow, accepted in self.table.enter(plans, report.first_slot, slot).items():
            self._flows[flow].accepted = accepted

    def take_others(self, host: str, others_bps: float, slot: int) -> None:
        """Cross traffic on the host's own uplinks together: nobody knows through which it leaves. A switch has none."""
        uplinks, capacity_bps = self._domain.uplinks.get(host, ()), self._domain.table_bps
        whole_bps = sum(capacity_bps[link] for link in uplinks)
        for link in uplinks:
            self.table.set_others(link, others_bps * capacity_bps[link] / whole_bps, slot)

    def _note(self, claim: Claim, reporter: str, slot: int) -> None:
        flow = claim.flow
        links = self.table.renew(flow, claim.path, slot)
        known = self._flows.get(flow)
        renewed = known is not None
        if known is None:
            demand = self._jobs.setdefault(flow.job, JobDemand(self._domain.table_bps))
            known = self._flows[flow] = _KnownFlow(claim, reporter, demand)
        else:
            known.claim, known.reporter = claim, reporter
        known.demand.learn(claim, links, slot, renewed=renewed)
        if not renewed:
            for link in links:
                jobs = self._jobs_on.setdefault(link, set())
                if len(jobs) == 1 and self._tells_uncontended:
                    self._met |= jobs - {flow.job}
                if flow.job not in jobs:
                    jobs.add(flow.job)
                    self._links_of.setdefault(flow.job, set()).add(link)
                    self._has_links.clear()
        self._volume_bytes[flow] = claim.sent_bytes + claim.planned_bytes

    def met(self) -> list[tuple[FlowId, str]]:
        """The flows, and who reports them, that were told that nobody competes, until somebody claimed now. They may
        have claimed nothing lately."""
        met, self._met = self._met, set()
        flows = [flow for flow in self._left_alone if flow.job in met] if met else []
        return [(flow, self._left_alone.pop(flow)) for flow in flows]

    def left_alone(self, flows: Iterable[FlowId]) -> set[str]:
        """The jobs of these flows that were told that nobody competes."""
        return {flow.job for flow in flows if flow in self._left_alone}

    def withdraw(self, withdrawal: Withdrawal) -> None:
        flow = withdrawal.flow
        self._drop(flow)
        if flow.job in self._jobs:
            self._volume_bytes[flow] = withdrawal.volume_bytes
            if withdrawal.left:
                self._leave(flow)

    def _leave(self, flow: FlowId) -> None:
        """Its job no longer competes on these links, unless other flows of it do."""
        demand = self._jobs[flow.job]
        demand.remove(flow)
        self._left_alone.pop(flow, None)
        links = demand.links
        for link in self._links_of.get(flow.job, set()) - links:
            self._jobs_on[link].discard(flow.job)
        self._links_of[flow.job] = links
        self._has_links.clear()
        if not links:
            self._forget_job(flow.job)
            self._links_of.pop(flow.job)

    def _forget_job(self, job: str) -> None:
        del self._jobs[job]
        for flow in [flow for flow in self._volume_bytes if flow.job == job]:
            del self._volume_bytes[flow]

    def expire(self, slot: int) -> list[FlowId]:
        """Drop the flows whose host says nothing any more, so that no other flow waits for them; says which."""
        silent = self.table.expire(slot)
        for flow in silent:
            self._drop(flow)
            self._volume_bytes[flow] = UNLIMITED
        self._forget_jobs(slot)
        return silent

    def _drop(self, flow: FlowId) -> None:
        self.table.drop(flow)
        self._flows.pop(flow, None)

    def _forget_jobs(self, slot: int) -> None:
        """Jobs that no report has named for long, and now and then such flows of the other jobs."""
        gone = [job for job, demand in self._jobs.items() if slot - demand.heard_slot > JOB_MEMORY_SLOTS]
        for job in gone:
            self._forget_job(job)
        sweeps = slot - self._swept_slot > JOB_MEMORY_SLOTS // 10
        if sweeps:
            self._swept_slot = slot
            for demand in self._jobs.values():
                demand.forget(slot - JOB_MEMORY_SLOTS)
        if gone or sweeps:
            self._has_links.clear()
            self._links_of = {job: demand.links for job, demand in self._jobs.items()}
            self._jobs_on = {}
            for job, links in self._links_of.items():
                for link in links:
                    self._jobs_on.setdefault(link, set()).add(job)
            self._left_alone = {flow: of for flow, of in self._left_alone.items() if flow.job in self._jobs}

    # ---- What flows are told ----

    def grants(self, flows: Sequence[FlowId], slot: int, shares: Mapping[FlowId, Share] | None) -> list[Grant]:
        """What the links of this switch say to each of these flows, which must all have a claim. `shares`: None where
        the policy has no arbitration."""
        told = []
        for flow, (available_bps, load) in zip(flows, self.table.view(flows, slot), strict=True):
            known = self._flows[flow]
            share_bps, ceiling_bps, stands_for = NO_SHARE if shares is None else self._share(known.claim, shares)
            alone_ns, volumes = known.demand.alone_ns, self._neighbours_bytes(known)
            links = (available_bps, load, alone_ns, *volumes)
            uncontended = self._uncontended(known)
            if uncontended:
                self._left_alone[flow] = known.reporter
            told.append(Grant(flow, known.accepted, share_bps, ceiling_bps, *links, stands_for, uncontended))
        return told

    def _uncontended(self, known: _KnownFlow) -> bool:
        """Whether no other job is remembered on a link of its job's flows. Members of a job wait for each other: where
        the ToR of a host does not know all of them, somebody may compete with those."""
        flow = known.claim.flow
        if not self._tells_uncontended or (flow.source in self._domain.hosts and not known.demand.whole):
            return False
        if flow.job not in self._has_links:
            links = self._links_of.get(flow.job, ())
            self._has_links[flow.job] = all(len(self._jobs_on[link]) == 1 for link in links)
        return self._has_links[flow.job]

    def _share(self, claim: Claim, shares: Mapping[FlowId, Share]) -> tuple[float, float, float]:
        """A flow about which nobody has decided, or never will, is held up by nothing."""
        share = shares.get(claim.flow)
        if share is not None:
            return share[1:]
        capacity_bps = self._domain.table_bps
        return 0.0, min((capacity_bps[link] for link in claim.path if link in capacity_bps), default=0.0), 1.0

    def _neighbours_bytes(self, known: _KnownFlow) -> tuple[float, float]:
        """How far the flows upstream and downstream are."""
        claim = known.claim
        upstream_bytes, downstream_bytes = UNLIMITED, 0.0
        if claim.upstream:
            unheard = 0.0 if self._domain.sees_arrivals else UNLIMITED
            upstream_bytes = min([self._volume_of(flow, known, unheard) for flow in claim.upstream])
        if claim.downstream:
            told = [self._volume_of(flow, known, 0.0) for flow in claim.downstream]
            downstream_bytes = max([0.0, *(volume for volume in told if volume < UNLIMITED)])
        return upstream_bytes, downstream_bytes

    def _volume_of(self, flow: FlowId, asker: _KnownFlow, unheard: float) -> float:
        """Its F, in the asker's bytes: hosts learn sizes by themselves, and iterations multiply what they differ by."""
        volume_bytes, size_bytes = self._volume_bytes.get(flow, unheard), asker.demand.size_bytes(flow)
        if size_bytes < LEAST_SCALED_BYTES or volume_bytes == UNLIMITED:  # ∞ · 0 would be no number
            return volume_bytes
        return volume_bytes * (asker.claim.size_bytes / size_bytes)
