"""The demand of a job that announces its bytes when they wait: torch over gloo, MPI or UCC, a parameter server; and of
one without the shim, whose bursts announce themselves (detect/bursts.py).

    facts                                     event
    ────────────────────────────────────────────────────────────────────────
    a whole iteration seen                    JobJoined, with the flows found
    bytes announced                           FlowReady for every flow, to the end of its burst
    a flow has sent them                      FlowDone
    the iteration counter moves               FlowDone for what is left, IterationEnded
    sizes have changed, twice alike           JobJoined again
    its processes have gone                   JobLeft

Which bytes are one burst depends on what the job waits for. DDP launches its buckets one after the other and waits for
all of them: its exchange is one burst from the first bucket on, however it is cut. A job that waits for each of its
collectives (FSDP, tensor parallelism, an all-to-all, a pipeline) computes in between, and needs no link then: its
*pieces* come to their end before the rest is announced, and a burst is what has been announced so far. How much a
flow sends for it is what it sent the last time: an all-gather and a reduce-scatter of one size differ. A piece that
rests is over, or waits for another member: when its bytes move again, so is the burst there again. A job of which no
piece is worth a turn is left to TCP, until it sends other sizes, or shorter pieces are worth one.

Under a parameter server the counter moves with the next iteration's first bytes, and some of those may have been sent
before hostd looks. The iteration ended where its flows last rested.

How much a flow sends in an iteration is what its sockets sent from the end of one to the end of the next.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import accumulate

from paceline.flowcore.demand.demand import ALL, ANNOUNCING, Demand
from paceline.flowcore.demand.facts import Ends, JobFacts
from paceline.flowcore.detect.bursts import NEARLY
from paceline.flowcore.messages.events import HostEvent, IterationEnded

CHATTER_ITERATIONS = 2
WORTH_AGAIN = 2.0  # times what is worth a turn: looks that grow a little longer and shorter change nothing
# Looks grow shorter when a job is left to TCP, and longer when it is taken on again. So it is taken on after this many
# iterations that are worth it, and each time after twice as many: a job that is neither the one nor the other would
# have no turns and pay for them.
AGAIN_ITERATIONS = 8
MOST_PIECES = 256
PIECES_ITERATIONS = 8  # for so long it is remembered that pieces came to their end one by one


class AnnouncedDemand(Demand):
    def __init__(self, job: str, host: str, least_bytes: float = 0.0) -> None:
        super().__init__(job, host, least_bytes)
        self._began_with: frozenset[Ends | int] = frozenset()  # connections and targets when this iteration began
        self._began_in_time = True  # what was sent when this iteration began was read before more was announced
        self._rested: dict[Ends, float] = {}  # sent when it last rested
        self._rests = False  # since its last burst ended
        self._began_burst_with: Mapping[Ends, float] = {}  # sent when the burst in hand began
        self._taken_bytes = -1.0  # announced in this iteration by the bursts so far
        self._pieces = 0  # iterations for which pieces are remembered
        self._part = 1.0  # of the iteration's bytes, by the end of the burst in hand
        self._piece_bytes: deque[float] = deque(maxlen=MOST_PIECES)  # of this iteration
        self._typical_bytes = 0.0  # of a piece, in the last iteration in which they were seen
        self._chatter = 0  # iterations in a row with mostly pieces that are not worth a turn
        self._worth = 0  # iterations in a row, of a job that is left to TCP, that seem worth turns ...
        self._again_after = AGAIN_ITERATIONS  # ... and how many of them take it on again
        self._ended_with: dict[float, dict[Ends, float]] = {}  # what was sent when so much was announced and had gone

    @property
    def in_pieces(self) -> bool:
        return self._pieces > 0

    @property
    def must_see_rests(self) -> bool:
        return self.in_pieces

    @property
    def between_bursts(self) -> bool:
        return self.paced and self.in_pieces and not self.live and self._part < ALL

    @property
    def left_to_tcp(self) -> str:
        return "its bursts are too short for turns" if self._chatter >= CHATTER_ITERATIONS else ""

    def until_bytes(self, ends: Ends) -> float:
        size = self.sizes[ends]
        if self._part >= ALL or not self.in_pieces:
            return size
        return min(size, self._ended_with.get(self._taken_bytes, {}).get(ends, self._part * size))

    def observe(self, facts: JobFacts) -> list[HostEvent]:
        events: list[HostEvent] = []
        if self._iteration < 0:  # in the middle of one, perhaps: then it counts from the next
            self._iteration, self._base = facts.iteration, dict(facts.sent_bytes)
        if self.before_first and facts.iteration == self._iteration and not facts.announced:
            # What was sent so far prepared the first.
            self._base, self._began_with = dict(facts.sent_bytes), facts.connections | facts.sent_bytes.keys()
        self._received_bytes = facts.received_bytes
        if facts.resting:
            self._rested, self._rests = dict(facts.sent_bytes), True
        # A loss that is summed up, or DDP's agreement on its buckets, comes to its end before all else and is no piece.
        has_pieces = facts.completed_bytes > ANNOUNCING * facts.expected_bytes
        if has_pieces and facts.announced_bytes < (1 - ANNOUNCING) * facts.expected_bytes:
            self._pieces = PIECES_ITERATIONS
        events += self._finish(facts)
        if facts.iteration != self._iteration:
            events += self._counted(facts)
        if facts.announced and self.paced and self._begins(facts):
            events += self._ready() + self._finish(facts)
        return events

    def _begins(self, facts: JobFacts) -> bool:
        """Bytes of this iteration have been announced: does a burst begin, or the one in hand grow?"""
        announced_bytes = facts.announced_bytes if self.in_pieces else facts.expected_bytes
        if announced_bytes > self._taken_bytes + ANNOUNCING * facts.expected_bytes:
            self._note_end()
            self._taken_bytes = announced_bytes
            expected_bytes = max(announced_bytes, facts.expected_bytes)  # the last iteration may have sent nothing
            self._part = announced_bytes / expected_bytes if announced_bytes else 1.0
            waiting = {ends for ends in self.sizes if self.sent_bytes(ends, facts) < self.until_bytes(ends)}
        elif self.in_pieces and facts.outstanding and not self.live and self._moves(facts):
            waiting = set(self.sizes)
            self._ended_with.pop(self._taken_bytes, None)
        else:
            return False
        if not self.live:
            self._began_burst_with = facts.sent_bytes
        self.live |= waiting
        return bool(self.live)

    def _moves(self, facts: JobFacts) -> bool:
        """Again, after a rest."""
        return (
            self._rests
            and not facts.resting
            and any(
                facts.sent_bytes.get(ends, 0.0) - self._rested.get(ends, 0.0) > ANNOUNCING * size
                for ends, size in self.sizes.items()
            )
        )

    def _finish(self, facts: JobFacts) -> list[HostEvent]:
        """The flows that are through by now. A size that was learned too large, or a piece that is smaller than its
        part of the count, must not keep a flow live that has nothing to send."""
        has_moved = facts.sent_bytes != self._began_burst_with  # else it has rested since before
        at_rest = facts.idle >= self.live and (not facts.outstanding or (facts.resting and has_moved))
        if self.in_pieces and self.live and at_rest:
            done = self._all_done()
        else:
            done = self._through(facts, NEARLY if facts.resting and not self.in_pieces else ALL)
        if done:
            self._rests = facts.resting
            before = self._began_burst_with
            sent = (facts.sent_bytes.get(ends, 0.0) - before.get(ends, 0.0) for ends in self.sizes)
            self._piece_bytes.append(max(0.0, *sent))  # a job's own count may fall
        return done

    def _note_end(self) -> None:
        """More is announced: what was announced before had gone where the flows last rested."""
        if self.in_pieces and self._rests and not self.live and len(self._ended_with) < MOST_PIECES:
            ended = {ends: self._rested.get(ends, 0.0) - self._base.get(ends, 0.0) for ends in self.sizes}
            self._ended_with[self._taken_bytes] = ended

    def _begin_anew(self) -> None:
        self._chatter, self._typical_bytes, self._ended_with = 0, 0.0, {}
        self._worth, self._again_after = 0, AGAIN_ITERATIONS

    def _counted(self, facts: JobFacts) -> list[HostEvent]:
        """The iteration counter has moved."""
        ended = {ends: self._ended_at(ends, sent, facts) for ends, sent in facts.sent_bytes.items()}
        events: list[HostEvent] = [*self._all_done(), IterationEnded(self.job)] if self.paced else []
        # A poll that missed some knows only their sum, of what connections sent before they were found, nothing, and of
        # one that came late, with pieces of the next sent, too much.
        late = facts.seldom or (self.in_pieces and facts.announced)
        # After one that came late the beginning is reckoned with the size that is known. Where looks are seldom that
        # would be most of them, and a size that is wrong would stay so.
        known = not late and (self._began_in_time or not self.left_to_tcp)
        self._began_in_time = not late
        if facts.iteration - self._iteration == 1 and self._was_whole(facts) and known:
            events += self._learn(facts, {ends: sent - self._base.get(ends, 0.0) for ends, sent in ended.items()})
        if self.in_pieces:
            was_paced = self.paced
            self._judge_pieces()
            events += self._leave_or_join(facts, was_paced)
        self._piece_bytes.clear()
        self._iteration, self._base = facts.iteration, ended
        self._taken_bytes, self._part = -1.0, 1.0
        if len(self._ended_with) >= MOST_PIECES:  # of varying sizes
            self._ended_with.clear()
        if not self.left_to_tcp:  # there nobody looks for them
            self._pieces = max(0, self._pieces - 1)
        self._began_with, self.before_first = frozenset(facts.sent_bytes), False
        return events

    def _judge_pieces(self) -> None:
        """Whether they are worth turns. Of a job that is left to TCP none is seen; what is worth a turn may change."""
        if self._piece_bytes:
            self._typical_bytes = _typical(self._piece_bytes)
            self._chatter = self._chatter + 1 if self._typical_bytes < self.least_bytes else 0
        elif self.left_to_tcp:
            self._worth = self._worth + 1 if self._typical_bytes >= WORTH_AGAIN * self.least_bytes else 0
        if self._worth >= self._again_after:
            self._chatter, self._worth, self._again_after = 0, 0, 2 * self._again_after

    def _was_whole(self, facts: JobFacts) -> bool:
        """Whether all that the iteration sent was seen: the first one's connections may be found in the middle."""
        if self.before_first:
            return self._began_with >= facts.connections | facts.sent_bytes.keys()
        return self._began_with == facts.sent_bytes.keys()

    def _ended_at(self, ends: Ends, sent: float, facts: JobFacts) -> float:
        """What the flow had sent at the end of the iteration that is counted now."""
        if self.in_pieces and facts.announced and ends in self.sizes:
            return min(sent, self._base.get(ends, 0.0) + self.sizes[ends])
        rested = self._rested.get(ends, 0.0)
        return rested if facts.announced and ends not in self.live and rested > self._base.get(ends, 0.0) else sent


def _typical(piece_bytes: Iterable[float]) -> float:
    """Half of the bytes are in pieces of this size or larger: two that a late look saw as one make no difference, nor
    do many small ones beside a large one."""
    ordered = sorted(piece_bytes, reverse=True)
    half_bytes = sum(ordered) / 2
    return next(size for size, so_far in zip(ordered, accumulate(ordered), strict=True) if so_far >= half_bytes)
