"""The analytic engine: iterations as long as their placement makes them, without moving a byte.

    iteration = (compute + exchange alone) · s        s = max(1, max over the job's links of Σ_j a_jl)

a_jl is the share of link l that job j needs at full speed. Jobs that share a link are thus slowed alike, just as far as
its capacity demands: perfect turns, as `paceline` nearly takes; the collisions of TCP would come on top. With Dally's
Table I there are no links and no job slows another, as in the paper's own simulator. Weeks of trace take seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

from paceline.cluster.exchange import Exchange
from paceline.cluster.state import Workers
from paceline.flowcore.model.units import ns_from_s
from paceline.sim.trace.formats.job import TraceJob


@dataclass(slots=True, eq=False)
class AnalyticJob:
    """How far a job has come, and how fast it goes on."""

    goal: int
    alone_ns: float  # an iteration's length with no other job
    share: dict[str, float]  # a_jl
    since_ns: int
    done: float = 0.0  # iterations, at since_ns
    slowdown: float = 1.0
    end_ns: int = 0

    def done_at(self, now_ns: int) -> float:
        return min(self.done + (now_ns - self.since_ns) / (self.alone_ns * self.slowdown), float(self.goal))

    def goes_on(self, now_ns: int, slowdown: float) -> None:
        self.done, self.since_ns = self.done_at(now_ns), now_ns
        self.slowdown = slowdown
        self.end_ns = now_ns + ceil((self.goal - self.done) * self.alone_ns * slowdown)


class AnalyticEngine:
    def __init__(self, exchange: Callable[[TraceJob, Workers], Exchange], finished: Callable[[str], None]) -> None:
        self.now_ns = 0
        self._exchange, self._finished = exchange, finished
        self._jobs: dict[str, AnalyticJob] = {}
        self._load: dict[str, float] = {}  # Σ_j a_jl
        self._on: dict[str, dict[str, None]] = {}  # by link: the jobs that need it

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def start(self, job: TraceJob, iterations: int, workers: Workers) -> None:
        exchange = self._exchange(job, workers)
        alone_s = job.compute_s + exchange.seconds
        share = {link: busy_s / alone_s for link, busy_s in exchange.busy_s.items()}
        running = self._jobs[job.name] = AnalyticJob(iterations, alone_s * 1e9, share, self.now_ns)
        running.goes_on(self.now_ns, 1.0)
        self._shift(job.name, share, +1)

    def stop(self, name: str) -> int:
        """The iterations that the job finished; a part of the next iteration is lost."""
        finished = self.iterations_done(name)
        share = self._jobs.pop(name).share
        self._shift(name, share, -1)
        return finished

    def iterations_done(self, name: str) -> int:
        return int(self._jobs[name].done_at(self.now_ns))

    def advance(self, until_s: float) -> None:
        """To then, or to the first job's end."""
        until_ns = self.now_ns + ns_from_s(min(until_s - self.now_s, 1e9)) if self._jobs or until_s < inf else 0
        first = min(self._jobs, key=lambda name: self._jobs[name].end_ns, default=None)
        if first is None or self._jobs[first].end_ns > until_ns:
            self.now_ns = max(self.now_ns, until_ns)
            return
        self.now_ns = max(self.now_ns, self._jobs[first].end_ns)
        self.stop(first)
        self._finished(first)

    def _shift(self, name: str, share: dict[str, float], sign: int) -> None:
        """A job comes to its links or leaves them: the jobs that share a link with it go on at another pace."""
        touched: dict[str, None] = {}
        for link, part in share.items():
            self._load[link] = self._load.get(link, 0.0) + sign * part
            users = self._on.setdefault(link, {})
            if sign > 0:
                users[name] = None
            else:
                del users[name]
            touched |= users
        for other in touched:
            job = self._jobs[other]
            slowdown = max([1.0, *(self._load[link] for link in job.share)])
            if slowdown != job.slowdown:
                job.goes_on(self.now_ns, slowdown)
