"""The demand of a job that announces its bytes when they wait: torch over gloo, MPI or UCC, a parameter server; and of
one without the shim, whose bursts announce themselves (detect/bursts.py).

    facts                                     event
    ────────────────────────────────────────────────────────────────────────
    a whole iteration seen                    JobJoined, with the flows found
    more announced than was sent before       FlowReady for every flow, up to the next stop (profile.py)
    a flow has sent that                      FlowDone
    the iteration counter moves               FlowDone for what is left, IterationEnded
    sizes have changed, twice alike           JobJoined again
    its processes have gone                   JobLeft
    no profile can be learned                 JobLeft, until one can

Under a parameter server the counter moves with the next iteration's first bytes, and some of those may have been sent
before hostd looks. The iteration ended where its flows last rested.

How much a flow sends in an iteration is what its sockets sent from the end of one to the end of the next.
"""

from paceline.flowcore.demand.demand import ALL, ANNOUNCING, Demand
from paceline.flowcore.demand.facts import Ends, JobFacts
from paceline.flowcore.detect.bursts import NEARLY
from paceline.flowcore.messages.events import HostEvent, IterationEnded
from paceline.flowcore.model.units import UNLIMITED


class AnnouncedDemand(Demand):
    def __init__(self, job: str, host: str) -> None:
        super().__init__(job, host)
        self._began_with: frozenset[Ends | int] = frozenset()  # connections and targets when this iteration began
        self._rested: dict[Ends, float] = {}  # sent when it last rested
        self._announced = False  # this iteration's bytes were announced while hostd watched
        self._taken_bytes = 0.0  # of those, by bursts that have ended

    def observe(self, facts: JobFacts) -> list[HostEvent]:
        events: list[HostEvent] = []
        if self._iteration < 0:  # in the middle of one, perhaps: then it counts from the next
            self._iteration, self._base = facts.iteration, dict(facts.sent_bytes)
        if self.before_first and facts.iteration == self._iteration and not facts.announced:
            # What was sent so far prepared the first.
            self._base, self._began_with = dict(facts.sent_bytes), facts.connections | facts.sent_bytes.keys()
        self._received_bytes = facts.received_bytes
        if facts.resting:
            self._rest(facts)
        events += self._finish(facts)
        if facts.iteration != self._iteration:
            events += self._counted(facts)
        if facts.announced and self.paced and self._begins(facts):
            events += self._ready() + self._finish(facts)
        return events

    def _rest(self, facts: JobFacts) -> None:
        self._rested = dict(facts.sent_bytes)
        # With all announced it waits for other members, with bytes in its sockets for its turn: where, is not in
        # the program.
        if self.sizes and facts.iteration == self._iteration and _part_announced(facts) and facts.idle >= self.live:
            self.profile.rested(facts.announced_bytes, self._sent_so_far(facts))

    def _begins(self, facts: JobFacts) -> bool:
        """Bytes of this iteration have been announced: does a burst begin, or the one in hand grow?"""
        sent = self._sent_so_far(facts)
        if not self._announced:
            self._announced = True
        elif self.live and self._stop is not None and facts.announced_bytes > self._stop.announced_bytes:
            self.profile.announced(facts.announced_bytes, sent)
        elif self.live or facts.announced_bytes <= self._taken_bytes + ANNOUNCING * facts.expected_bytes:
            return False
        self._stop = self.profile.next_stop(facts.announced_bytes, sent)
        self.live = self.live or {ends for ends, size in self.sizes.items() if sent[ends] < size}
        return True

    def _finish(self, facts: JobFacts) -> list[HostEvent]:
        """The flows that are through by now, and with the last of them the burst."""
        done = self._through(facts, NEARLY if facts.resting and self._stop is None else ALL)
        if done and not self.live:  # what is announced beyond that is another burst
            self._taken_bytes = self._stop.announced_bytes if self._stop is not None else UNLIMITED
        return done

    def _counted(self, facts: JobFacts) -> list[HostEvent]:
        """The iteration counter has moved."""
        ended = {ends: self._ended_at(ends, sent, facts) for ends, sent in facts.sent_bytes.items()}
        events: list[HostEvent] = [*self._all_done(), IterationEnded(self.job)] if self.paced else []
        # A poll that missed some knows only their sum, and of what connections sent before they were found, nothing.
        if facts.iteration - self._iteration == 1 and self._was_whole(facts):
            sample = {ends: sent - self._base.get(ends, 0.0) for ends, sent in ended.items()}
            events += self._profile_iteration(facts) + self._learn(facts, sample)
        self._iteration, self._base = facts.iteration, ended
        self._announced, self._taken_bytes, self._stop = False, 0.0, None
        self._began_with, self.before_first = frozenset(facts.sent_bytes), False
        return events

    def _was_whole(self, facts: JobFacts) -> bool:
        """Whether all that the iteration sent was seen: the first one's connections may be found in the middle."""
        if self.before_first:
            return self._began_with >= facts.connections | facts.sent_bytes.keys()
        return self._began_with == facts.sent_bytes.keys()

    def _ended_at(self, ends: Ends, sent: float, facts: JobFacts) -> float:
        """What the flow had sent at the end of the iteration that is counted now."""
        rested = self._rested.get(ends, 0.0)
        return rested if facts.announced and ends not in self.live and rested > self._base.get(ends, 0.0) else sent


def _part_announced(facts: JobFacts) -> bool:
    """Some of the iteration's bytes, and not all."""
    return facts.announced and facts.announced_bytes < (1 - ANNOUNCING) * facts.expected_bytes
