"""What each tenant may have of this host's share at its switch, which is one for all of them.

    jobs      that join, at a time
    flows     that they name: one counts for as long as the switch remembers its job
    claims    of those flows in a slot, over all reports (report_filter.py)

Law: no tenant has more, whatever its jobs do, and all tenants together name no more flows than a switch lets a host
name. What is over is left to TCP, named with its reason, and joins when there is room.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from paceline.flowcore.messages.events import HostEvent, JobJoined, JobLeft
from paceline.flowcore.model.job_names import tenant_of
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS

FLOWS_OF_HOST = 512  # as switchd has it by default (max_flows_per_host)


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Of one tenant."""

    jobs: int = 32
    flows: int = 128
    claims: int = 640  # five times each flow: to ask, to plan, to withdraw


@dataclass(slots=True)
class _Named:
    """A job that the switch remembers."""

    flows: set[FlowId] = field(default_factory=set)
    left_ns: int | None = None  # None: it is joined


class Quotas:
    def __init__(self, limits: QuotaLimits, slot_ns: int) -> None:
        self.limits = limits
        self.refused: dict[str, str] = {}  # jobs that are left to TCP, and why
        self._memory_ns = JOB_MEMORY_SLOTS * slot_ns
        self._named: dict[str, dict[str, _Named]] = {}  # by tenant and job

    def admit(self, event: HostEvent, now_ns: int) -> bool:
        """Whether the agent may hear of it."""
        match event:
            case JobLeft(job):
                self._left(job, now_ns)
            case JobJoined(job, specs):
                self._forget(now_ns)
                own = self._named.setdefault(tenant_of(job), {})
                flows = {spec.flow for spec in specs} | (own[job].flows if job in own else set())
                if why := self._why_not(job, flows):
                    self.refused[job] = why
                    self._left(job, now_ns)
                    return False
                own[job] = _Named(flows)
                self.refused.pop(job, None)
        return True

    def waiting(self, present: set[str], now_ns: int) -> Iterator[str]:
        """Jobs that were refused, for which there may be room by now; those that have gone are forgotten."""
        self._forget(now_ns)
        self.refused = {job: why for job, why in self.refused.items() if job in present}
        for job in list(self.refused):
            if self._why_not(job, set()) == "":
                yield job

    def _why_not(self, job: str, flows: set[FlowId]) -> str:
        own = {name: one for name, one in self._named.get(tenant_of(job), {}).items() if name != job}
        joined = sum(one.left_ns is None for one in own.values())
        if joined >= self.limits.jobs:
            return f"its user has {joined} jobs that are paced here, and may have {self.limits.jobs}"
        named = sum(len(one.flows) for one in own.values())
        if named + max(1, len(flows)) > self.limits.flows:
            return f"its user's other jobs have {named} flows here, it has {len(flows)}: more than {self.limits.flows}"
        of_host = sum(len(one.flows) for jobs in self._named.values() for name, one in jobs.items() if name != job)
        if of_host + max(1, len(flows)) > FLOWS_OF_HOST:
            return f"all jobs of this host have {of_host} flows, and a switch allows {FLOWS_OF_HOST}"
        return ""

    def _left(self, job: str, now_ns: int) -> None:
        known = self._named.get(tenant_of(job), {}).get(job)
        if known is not None and known.left_ns is None:
            known.left_ns = now_ns

    def _forget(self, now_ns: int) -> None:
        for tenant, jobs in list(self._named.items()):
            for job, one in list(jobs.items()):
                if one.left_ns is not None and not 0 <= now_ns - one.left_ns <= self._memory_ns:
                    del jobs[job]
            if not jobs:
                del self._named[tenant]
