"""What hostd knows at one moment. The daemon makes one for each question; status, explain and metrics read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
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
    held_back: Mapping[str, int] = field(default_factory=dict)  # claims beyond a slot's quota, by tenant

    @property
    def names(self) -> JobNames:
        """What people call the jobs."""
        return JobNames(self.jobs, self.users)

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
