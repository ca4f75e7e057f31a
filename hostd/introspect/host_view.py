"""What hostd knows at one moment. The daemon makes one for each question; status, explain and metrics read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from hostd.enforce.enforcer import Enforcer
from hostd.introspect.durations import Durations
from hostd.monitor.job_tracker import JobTracker
from hostd.monitor.throughput import Throughput
from hostd.monitor.users import JobNames, Users
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.model.topology import Topology


@dataclass(frozen=True, slots=True)
class SwitchView:
    """The host's switch, as its stream knows it."""

    name: str
    address: str | None = None  # None: the host decides alone
    connected: bool = False
    why_not: str = "no switch is configured"
    clock_off_by_ns: int = 0
    silent: tuple[str, ...] = ()  # switches that it has lost


def script_of(job: str) -> str | None:
    """Of a name of the kind script-pid."""
    script, dash, pid = job.rpartition("-")
    return script if dash and script and pid.isdecimal() else None


class Launch(NamedTuple):
    """A job, and what its processes on this host say of it."""

    job: str
    world_sizes: frozenset[int]
    ranks: frozenset[int]

    @classmethod
    def of(cls, job: JobTracker) -> "Launch":
        said = [process.view.snapshot for process in job.processes.values() if process.view is not None]
        members = [one for one in said if one.global_rank >= 0 and one.world_size > 1]
        sizes = frozenset(one.world_size for one in members)
        return cls(job.demand.job, sizes, frozenset(one.global_rank for one in members))

    def may_be_part_of(self, other: "Launch") -> bool:
        """They have different ranks of one world."""
        known = bool(self.ranks and other.ranks)
        return known and self.world_sizes == other.world_sizes and self.ranks.isdisjoint(other.ranks)


@dataclass(frozen=True)
class HostView:
    name: str
    mode: str
    policy: str
    now_ns: int
    topology: Topology
    agent: HostAgent
    enforcer: Enforcer
    switch: SwitchView
    jobs: Mapping[str, JobTracker]  # paced or only watched
    invisible: Mapping[str, str]  # why a process is not seen, by file or pid
    throughput: Throughput
    decisions: Durations
    missed_slots: int
    control_refused: int
    own_ns: int = 0  # as job trackers have it; `now_ns` is the switch's time
    host_of: Mapping[str, str] = field(default_factory=dict)  # address → host
    listed: tuple[str, ...] | None = None  # jobs to be paced; None: all
    namespace: int = 0  # the network namespace of this host
    released: Mapping[str | None, str] = field(default_factory=dict)  # jobs whose limits were lifted, and by which
    # request; None: those of every job
    registrations_refused: Mapping[str, int] = field(default_factory=dict)  # by reason
    users: Users = field(default_factory=Users)
    over_quota: Mapping[str, str] = field(default_factory=dict)  # jobs that are left to TCP, and why
    bad_numbers: Mapping[str, str] = field(default_factory=dict)  # the same
    bad_readings: int = 0  # of counters, so far
    held_back: Mapping[str, int] = field(default_factory=dict)  # claims beyond a slot's quota, by tenant

    @cached_property
    def names(self) -> JobNames:
        """What people call the jobs."""
        return JobNames(self.jobs, self.users)

    @cached_property
    def launches(self) -> Mapping[str, list[Launch]]:
        """The jobs with a name of the kind script-pid, by tenant and script."""
        found: dict[str, list[Launch]] = {}
        for job, tracker in self.jobs.items():
            if (script := script_of(job)) is not None:
                found.setdefault(script, []).append(Launch.of(tracker))
        return found

    @property
    def slot(self) -> int:
        return self.agent.clock.index(self.now_ns)

    def is_paced(self, job: str) -> bool:
        """Limits of it are in force."""
        return self.mode == "enforce" and job in self.agent.jobs and not {None, job} & self.released.keys()

    @property
    def answer_age_ns(self) -> int:
        """Of the switch's last answer; 0 while no flow has anything to send."""
        ready_ns = [flow.ready_ns for flow in self.agent.live_flows()]
        if self.switch.address is None or not ready_ns:
            return 0
        return self.agent.answers.age_ns(min(ready_ns), self.now_ns)
