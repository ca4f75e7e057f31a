"""What an iteration sends, of a job that launches it before its bytes exist: sampled from one of its rests to another.

A job rests when all of an iteration is out; but also in the middle of a burst that waits for another job's, where it
computes between two bursts, and between a launch and its first byte. So a sample has to be of whole iterations, and the
plugin's counts tell, in this order:

    launched   between the two rests whole iterations were launched, what was launched has been counted, and at neither
               more was still to come than at the other rests of late; known after two iterations
    marked     the same, where a ring's arithmetic says nothing of what is counted (trees, short messages): as much was
               counted as from mark to mark; known when two iterations are alike by that
    about      before either is known, and where iterations differ: as much was counted as from mark to mark, within
               WHOLE. Best are two rests at which nothing was counted since a mark: where a job has such rests, no other
               is taken.

Sockets must have sent what was counted in between: they hold nothing at either rest, and none was found late. A job
whose plugin does not count is believed its iteration counter.
"""

from collections import deque
from collections.abc import Mapping

from paceline.flowcore.demand.facts import Ends, JobFacts

ALIKE = 0.005  # of an iteration: so close are the same, in counts that are read a moment apart
MORE = 0.1  # of an iteration: a rest with so much to come is in the middle of a burst
AHEAD = 2  # iterations: a job rests no more of them behind its counter
WHOLE = 0.2  # marks come at any time within the burst of a job that computes meanwhile
RESTS = 8  # of the last two or three iterations: the ends of those are among them


class WholeIterations:
    def __init__(self) -> None:
        self._rests: deque[JobFacts] = deque(maxlen=RESTS)
        self._sampled: JobFacts | None = None  # the rest at which the last sample ended, or might have begun
        self._begun = False  # it is not the first rest: what comes before the first iteration is no part of any
        self._marks = _Marks()

    def observe(self, facts: JobFacts) -> None:
        """Every look."""
        self._marks.observe(facts)

    def sample(self, facts: JobFacts) -> Mapping[Ends, float] | None:
        """What each flow sends in an iteration; None: this rest tells nothing."""
        goes_on = bool(self._rests) and self._rests[-1].counted_bytes == facts.counted_bytes
        if facts.marked_bytes and not goes_on and not any(facts.waiting_bytes.values()):
            exactly = self._from_an_earlier_rest(facts)
            self._rests.append(facts)
            if exactly is not None:
                self._sampled = facts
                return exactly
        return self._since_the_last(facts)

    def _from_an_earlier_rest(self, facts: JobFacts) -> Mapping[Ends, float] | None:
        to_come = facts.to_send_bytes - facts.counted_bytes
        least = min((rest.to_send_bytes - rest.counted_bytes for rest in self._rests), default=to_come)
        for rest in reversed(self._rests):
            counted = facts.counted_bytes - rest.counted_bytes
            passed = _times(facts.launched_bytes - rest.launched_bytes, facts.expected_bytes)
            if not passed:
                continue
            as_launched = _agree(counted, facts.to_send_bytes - rest.to_send_bytes, counted / passed)
            if as_launched and to_come > least + MORE * counted / passed:
                return None
            as_marked = _agree(counted, passed * self._marks.each_bytes, self._marks.each_bytes)
            if (as_launched or as_marked) and (sent := _sent(rest, facts)) is not None:
                return {ends: size / passed for ends, size in sent.items()}
        return None

    def _since_the_last(self, facts: JobFacts) -> Mapping[Ends, float] | None:
        last = self._sampled
        passed = facts.iteration - (last.iteration if last is not None else -1)
        if passed <= 0:
            return None
        if not self._begun or last is None or last.sent_bytes.keys() != facts.sent_bytes.keys():
            self._sampled, self._begun = facts, last is not None
            return None
        counted, marked = facts.counted_bytes - last.counted_bytes, facts.marked_bytes - last.marked_bytes
        if not facts.marked_bytes or not counted:  # it does not count, or what it replays on the GPU is not counted
            self._sampled = facts
            return {ends: sent / passed for ends, sent in _difference(last, facts).items()}
        at_mark, was_at_mark = _at_mark(facts), _at_mark(last)
        if was_at_mark and not at_mark and passed <= AHEAD:
            return None  # it may come to rest at another
        margin = ALIKE if self._marks.each_bytes else WHOLE
        if counted < (1 - margin) * marked and not at_mark:
            return None  # the last of them is not out yet
        self._sampled = facts
        sent = _sent(last, facts) if at_mark == was_at_mark and counted <= (1 + margin) * marked else None
        return {ends: size / passed for ends, size in sent.items()} if sent is not None else None


def _times(whole: float, part: float) -> int:
    """How many times the part is in the whole; 0: no whole number of times."""
    number = round(whole / part) if part > 0 else 0
    return number if number > 0 and _agree(whole, number * part, part) else 0


def _agree(one: float, other: float, iteration_bytes: float) -> bool:
    return abs(one - other) <= ALIKE * iteration_bytes


def _difference(before: JobFacts, now: JobFacts) -> dict[Ends, float]:
    return {ends: sent - before.sent_bytes.get(ends, 0.0) for ends, sent in now.sent_bytes.items()}


def _sent(before: JobFacts, now: JobFacts) -> dict[Ends, float] | None:
    """None: not what was counted meanwhile; some of it lay in sockets then, or in some that were not known."""
    counted = now.counted_bytes - before.counted_bytes
    sent = _difference(before, now)
    same_flows = before.sent_bytes.keys() == now.sent_bytes.keys()
    return sent if same_flows and counted > 0 and _agree(sum(sent.values()), counted, counted) else None


def _at_mark(facts: JobFacts) -> bool:
    """Nothing was counted since the last mark, and what was before it is out: an iteration ends here."""
    usual_bytes = facts.marked_bytes / max(1, facts.iteration)
    nothing_since = facts.counted_bytes - facts.marked_bytes <= ALIKE * usual_bytes
    return facts.marked_bytes > 0 and nothing_since and not any(facts.waiting_bytes.values())


class _Marks:
    """What the plugin counted from one mark to the next. Processes mark one after the other, so that what was counted
    at a mark is known for sure when the next one comes."""

    def __init__(self) -> None:
        self.each_bytes = 0.0  # in the last two iterations, which were alike; 0: they were not
        self._iteration, self._marked_bytes = 0, 0.0  # at the last mark,
        self._earlier: tuple[int, float] | None = None  # ... and at the one before it
        self._size_bytes = 0.0  # of the iterations between those

    def observe(self, facts: JobFacts) -> None:
        if facts.iteration != self._iteration:
            self._size_bytes = self._since_earlier(self._iteration, self._marked_bytes)
            self._earlier = (self._iteration, self._marked_bytes) if self._iteration else None
        self._iteration, self._marked_bytes = facts.iteration, facts.marked_bytes
        size_bytes = self._since_earlier(self._iteration, self._marked_bytes)
        alike = self._size_bytes > 0 and _agree(size_bytes, self._size_bytes, self._size_bytes)
        self.each_bytes = size_bytes if alike else 0.0

    def _since_earlier(self, iteration: int, marked_bytes: float) -> float:
        if self._earlier is None or iteration <= self._earlier[0]:
            return 0.0
        return (marked_bytes - self._earlier[1]) / (iteration - self._earlier[0])
