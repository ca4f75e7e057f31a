"""The times to which a switch holds the jobs that it divides links among, and what it has seen of them.

    has begun             goes on, beside whatever else goes
    has a time            its burst waits until it is due, and never longer than one iteration
    has none              goes when it is ready: it does not fit, meets no other job, or has been seen for less than one
                          burst and the computing after it

Jobs are remembered while they compute, and for some iterations more. Times are planned anew when a job was seen for
long enough, has gone, or needs something else than before; the oldest of those that meet keeps its time.

A burst that is late goes at once, and the times of all that it is timed with move by as much: who decides about one
decides about all. CASSINI's servers know only themselves, so that a job that is late must wait for its next time
(drift.py); that is the rule here for one that is so late that it would go into another's burst. In this way jobs that
fit exactly lose what a straggler loses, and not an iteration each.

Law: a job that shares no link is never held.
"""

from collections.abc import Iterable, Mapping, Sequence

from paceline.flowcore.allocation.arbiters import Contender
from paceline.flowcore.allocation.shifts.affinity import components
from paceline.flowcore.allocation.shifts.circle import COARSEST
from paceline.flowcore.allocation.shifts.drift import TOLERANCE, wait_ns
from paceline.flowcore.allocation.shifts.footprint import Footprint, shared_links
from paceline.flowcore.allocation.shifts.plan import Link, plan
from paceline.flowcore.allocation.shifts.seen_job import SeenJob
from paceline.flowcore.allocation.shifts.times import COMPATIBLE, Due, due_times

# A job that has been silent for so many of its iterations has gone, and any job after so long.
MEMORY_CYCLES = 4
LONGEST_MEMORY_NS = 60_000_000_000

# More jobs that meet, directly or through others, are not timed: so many hardly fit, and a switch has no time to look.
MOST_JOBS = 8

# Measured times of like jobs are never the same. Those that differ by no more than this are taken for the longest of
# them: on a grid (circle.py) they would cost up to COARSEST, or not fit at all. With 1.02, jobs whose computing jitters
# by 5 % were seldom alike.
ALIKE = 1 + COARSEST

LATEST = 0.5  # of an iteration: a burst that is later is early for its next time

FULL = 1.01  # a link with more than this of its capacity asked for: what sends there is slowed


class Timetable:
    def __init__(self, capacity_bps: Mapping[str, float]) -> None:
        self.next_ns: int | None = None  # when the next job that is held may go
        self._capacity_bps = capacity_bps
        self._jobs: dict[str, SeenJob] = {}  # oldest first
        self._due: Due = {}
        self._part_of: dict[str, frozenset[str]] = {}  # of jobs with a time, those that are timed together
        self._stale = False

    @property
    def links_of(self) -> dict[str, frozenset[str]]:
        """Of every job that is remembered: those that compute meet others, too."""
        return {name: job.links for name, job in self._jobs.items()}

    def hear(self, claiming: Mapping[str, Iterable[str]], now_ns: int) -> None:
        """At the beginning of a division: which jobs claim what, here or elsewhere."""
        self.next_ns = None
        for name, links in claiming.items():
            self._jobs.setdefault(name, SeenJob(now_ns)).claims(links, now_ns)
        for name, job in list(self._jobs.items()):
            if name not in claiming:
                job.leaves(now_ns)
                if self._has_gone(job, now_ns):
                    self._stale |= job.footprint is not None
                    del self._jobs[name]

    def held(self, members: Sequence[Contender], now_ns: int) -> frozenset[str]:
        """Which jobs of a group wait, whatever the links have left. Every job must have been heard."""
        for member in members:
            given = self._due.get(member.job)
            given_ms = None if given is None else given[1] / 1e6
            self._stale |= self._jobs[member.job].look(member, self._capacity_bps, given_ms, now_ns)
        if self._stale:
            self._plan(now_ns)
        waiting = frozenset(member.job for member in members if not self._goes(member.job, now_ns))
        self._note_meetings([member for member in members if member.job not in waiting])
        until_ns = [self._jobs[name].until_ns for name in waiting]
        self.next_ns = min((one for one in (self.next_ns, *until_ns) if one is not None), default=None)
        return waiting

    def _goes(self, name: str, now_ns: int) -> bool:
        job, due = self._jobs[name], self._due.get(name)
        if not job.going:
            if due is not None and job.until_ns is None:
                job.wait(now_ns, self._wait_ns(name, now_ns), due[1])
            if due is None or (job.until_ns is not None and job.until_ns <= now_ns):
                job.go(now_ns)
        return job.going

    def _wait_ns(self, name: str, now_ns: int) -> int:
        """Until its burst, ready now, is due; 0: it goes, and if it is late, its part's times move."""
        anchor_ns, every_ns = self._due[name]
        late_ns = (now_ns - anchor_ns) % every_ns
        part = self._part_of[name]
        sending = any(one in self._jobs and self._jobs[one].sending for one in part if one != name)
        if late_ns > (TOLERANCE if sending else LATEST) * every_ns:
            return wait_ns(now_ns, anchor_ns, every_ns)
        for one in part:
            self._due[one] = self._due[one][0] + late_ns, self._due[one][1]
        return 0

    def _note_meetings(self, going: Sequence[Contender]) -> None:
        """Whose cycles say nothing of what they need."""
        asked_bps: dict[str, float] = {}
        alone_bps = {member.job: member.alone_bps(self._capacity_bps) for member in going}
        for member in going:
            for link, flows in member.flows_on.items():
                asked_bps[link] = asked_bps.get(link, 0.0) + flows * alone_bps[member.job]
        full = {link for link, bps in asked_bps.items() if bps > FULL * self._capacity_bps[link]}
        for member in going:
            if not full.isdisjoint(member.flows_on):
                self._jobs[member.job].meets_others()

    def _has_gone(self, job: SeenJob, now_ns: int) -> bool:
        needs_ns = LONGEST_MEMORY_NS if job.footprint is None else 1e6 * job.footprint.needs_ms
        memory_ns = min(MEMORY_CYCLES * needs_ns, LONGEST_MEMORY_NS)
        return job.left_ns is not None and now_ns - job.left_ns > memory_ns

    # ---- Times ----

    def _plan(self, now_ns: int) -> None:
        known = alike({name: job.footprint for name, job in self._jobs.items() if job.footprint is not None})
        before: Due = {name: (job.begun_ns, 0) for name, job in self._jobs.items() if job.begun_ns is not None}
        for name, (anchor_ns, every_ns) in self._due.items():
            # The last time it was due: counted from an old one, another length of iteration would be another time.
            before[name] = now_ns - (now_ns - anchor_ns) % every_ns, every_ns
        found = plan(self._few(known), COMPATIBLE)
        self._due = due_times(found, known, before, now_ns)
        self._part_of = {name: frozenset(part) for part in found.parts_ms for name in part}
        self._stale = False
        for job in self._jobs.values():
            job.until_ns = None  # those that wait do so for another time

    def _few(self, known: Mapping[str, Footprint]) -> dict[str, Link]:
        """The links on which they meet, but for those of too many jobs. The fullest come first: of links where the same
        jobs meet the plan looks at one (affinity.binding), and a server's link asks for more than its workers'."""
        found = shared_links(known, self._capacity_bps)
        links = dict(sorted(found.items(), key=lambda item: -round(_asked(item[1]), 6)))
        few: dict[str, Link] = {}
        for part in components({name: dict.fromkeys(link.profiles, 0.0) for name, link in links.items()}):
            if len({job for jobs in part.values() for job in jobs}) <= MOST_JOBS:
                few |= {name: links[name] for name in part}
        return few


def alike(jobs: Mapping[str, Footprint]) -> dict[str, Footprint]:
    """The same jobs, with the same iteration where theirs are about the same."""
    longest_ms, same_ms = 0.0, dict[str, float]()
    for name in sorted(jobs, key=lambda name: -jobs[name].iteration_ms):
        if ALIKE * jobs[name].iteration_ms < longest_ms or not longest_ms:
            longest_ms = jobs[name].iteration_ms
        same_ms[name] = longest_ms
    return {name: job.stretched(same_ms[name]) for name, job in jobs.items()}


def _asked(link: Link) -> float:
    """Of its capacity, if all jobs sent at once."""
    return sum(phase.gbps for profile in link.profiles.values() for phase in profile.phases) / link.capacity_gbps
