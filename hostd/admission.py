"""Which jobs the agent hears of. Law: those that the operator wants, each user's within its quotas (monitor/quotas.py),
and none whose numbers no switch takes; the rest is left to TCP, and watched. A job with such a number may try again
after a second: what it says is looked at before it is sent. Events of a job that has not joined mean nothing. What a
job asks to count is held to what the operator allows (weights.py).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from hostd.config import HostConfig
from hostd.monitor.quotas import Quotas
from hostd.monitor.users import Users
from paceline.flowcore.host.flow_state import JobFlows
from paceline.flowcore.messages.events import HostEvent, JobJoined, JobLeft

LEFT_OUT_NS = 1_000_000_000


class Admission:
    def __init__(self, config: HostConfig, users: Users, joined: Mapping[str, JobFlows]) -> None:
        """`joined`: the jobs that the agent knows."""
        self.released: dict[str | None, str] = {}  # jobs whose limits were lifted until the next reload; None: all
        self.expelled: dict[str, str] = {}  # jobs with numbers that no switch takes, and why
        self._expelled_ns: dict[str, int] = {}  # when that was noticed here
        self.quotas = Quotas(config.quotas, config.slots.clock().length_ns)
        self._config, self._users, self._joined = config, users, joined
        self._asked: dict[str, float] = {}  # weights, by job
        self.weighable: Callable[[str], bool] = lambda job: False  # whether its sockets can count for several, ...
        self.unstoppable: Callable[[str], bool] = lambda job: False  # ... and whether only its launches can be held

    def reload(self, config: HostConfig) -> set[str]:
        """Returns the jobs that count more or less from now on, or whose flows are held another way."""
        self._config, self.quotas.limits = config, config.quotas
        self.released.clear()
        return self.otherwise()

    def otherwise(self) -> set[str]:
        """Jobs that count more or less than when they joined, or whose flows are held another way: which, is not known
        before their sockets are."""
        return {
            job
            for job, joined in self._joined.items()
            if (self._weight(job), self.weighable(job), self.unstoppable(job))
            != (joined.progress.weight, joined.weighable, joined.unstoppable)
        }

    def _weight(self, job: str) -> float:
        return self._config.weights.allowed(job, self._asked.get(job, 1.0), self._users)

    def wants(self, job: str) -> bool:
        jobs = self._config.jobs
        listed = jobs is None or any(self._users.means(text, job) for text in jobs)
        left_out = job in self.released or job in self.expelled
        return self._config.mode != "observe" and listed and not left_out

    def passed(self, events: Iterable[HostEvent], now_ns: int) -> list[HostEvent]:
        """What the agent may hear."""
        passed: list[HostEvent] = []
        for event in events:
            if isinstance(event, JobJoined):
                self._asked[event.job] = event.weight
                event = replace(
                    event,
                    weight=self._weight(event.job),
                    weighable=self.weighable(event.job),
                    unstoppable=self.unstoppable(event.job),
                )
            elif isinstance(event, JobLeft):
                self._asked.pop(event.job, None)
            if isinstance(event, JobJoined) and not self.wants(event.job):
                continue
            if self.quotas.admit(event, now_ns):
                passed.append(event)
            elif isinstance(event, JobJoined) and event.job in self._joined:  # again, with more than before
                passed.append(JobLeft(event.job))
        return passed

    def waiting(self, present: Collection[str], now_ns: int) -> list[str]:
        """Jobs that were refused, and for which there may be room by now, or whose numbers may be sound again."""
        again: list[str] = []
        for job in list(self.expelled):
            self.quotas.admit(JobLeft(job), now_ns)
            since_ns = self._expelled_ns.setdefault(job, now_ns)
            if job not in present or now_ns - since_ns >= LEFT_OUT_NS:
                del self.expelled[job], self._expelled_ns[job]
                again += [job] if job in present else []
        return [job for job in (*again, *self.quotas.waiting(set(present), now_ns)) if self.wants(job)]
