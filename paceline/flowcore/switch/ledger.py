"""What each job was given of the links, beside what an equal share would have given it.

Bids are what hosts say. A host may lie or be wrong, and a job that bids high enough would have the links for ever. What
the switch gave a job is no host's word, so the switch keeps a ledger: it says what a bid is worth (observed_job.py),
and which jobs have had too much. With y_j the part of its best rate that job j is
given, and f_j the part that max-min sharing would give it among the jobs that are here or ahead,

    A_j(t) = ∫ e^{−(t−u)/MEMORY} (y_j − f_j) du        seconds of link time that job j is ahead of an equal share

A job that is ahead by more than MOST_AHEAD is *overdrawn*: it gets what the other jobs leave. Taking turns puts a job
ahead by a burst and then behind by one, so honest jobs are seldom overdrawn. A job that lies gains MOST_AHEAD once, and
MOST_AHEAD/MEMORY of a link for as long as it lies. A job that is through stays in the ledger while it is ahead: with
equal shares it would still be sending. A job that is behind by more than BEHIND is believed whatever it bids: it can
gain no more than an equal share, and what the switch has seen of a job that was killed and began again may be wrong.

A job that was given a share for WATCHED_SLOTS and sent nothing has no claim to an equal share either: it is overdrawn
until bytes move. An honest host would have withdrawn the claim long before (detect/stalls.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paceline.flowcore.allocation.arbiters import Contender, max_min_shares
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import transfer_bytes
from paceline.flowcore.switch.observed_job import ObservedJob

# With a quarter of MOST_AHEAD honest jobs are held back too: random mixes have 1 % more mean slowdown. With half of it
# a job that hangs shifts the turns of the others (tests/sim/test_hung_jobs.py).
MEMORY_S = 60.0
MOST_AHEAD_S = 2.0
BEHIND_S = 0.2

WATCHED_SLOTS = 4  # a flow is heard of once a slot, and now and then late
_LEAST_AHEAD_S = 1e-3  # a job that is through and ahead by less counts no more


@dataclass(slots=True)
class _Account:
    contender: Contender  # as it last was
    ahead_s: float = 0.0
    present: bool = False
    observed: ObservedJob = field(default_factory=ObservedJob)
    heard_ns: int = 0
    divided: bool = False  # here: else another switch gives it something
    given: float = 0.0  # y_j in force ...
    fair: float = 0.0  # ... and f_j
    rate_bps: float = 0.0  # of all its flows together
    idle: bool = False
    watched_ns: int = 0  # since when these two are counted
    promised_bytes: float = 0.0
    sent_bytes: float = 0.0

    @property
    def ahead(self) -> bool:
        return self.ahead_s > _LEAST_AHEAD_S

    def advance(self, elapsed_ns: int) -> None:
        elapsed_s = elapsed_ns / 1e9
        ahead_s = self.ahead_s * math.exp(-elapsed_s / MEMORY_S) + (self.given - self.fair) * elapsed_s
        self.ahead_s = max(-MOST_AHEAD_S, ahead_s)  # no job may save up for a long absence of the others
        self.promised_bytes += transfer_bytes(self.rate_bps, elapsed_ns)
        if self.divided or not self.present:
            self.observed.advance(elapsed_s, self.given if self.present else None)

    def watch(self, now_ns: int) -> None:
        self.watched_ns, self.promised_bytes, self.sent_bytes = now_ns, 0.0, 0.0

    def judge(self, now_ns: int, slot_ns: int) -> None:
        """Whether it uses what it is given."""
        if self.sent_bytes > 0.0:
            self.idle = False
            self.watch(now_ns)
        elif now_ns - self.watched_ns >= WATCHED_SLOTS * slot_ns:
            self.idle |= self.promised_bytes > 0.0


class Ledger:
    def __init__(self, slot_ns: int) -> None:
        self._slot_ns = slot_ns
        self._accounts: dict[str, _Account] = {}
        self._sent_bytes: dict[str, dict[FlowId, float]] = {}  # by the last report of a job's flows
        self._now_ns = 0

    def heard(self, claim: Claim) -> None:
        sent_bytes = self._sent_bytes.setdefault(claim.flow.job, {})
        before = sent_bytes.get(claim.flow, claim.sent_bytes)
        sent_bytes[claim.flow] = claim.sent_bytes
        if claim.flow.job in self._accounts:
            self._accounts[claim.flow.job].sent_bytes += max(0.0, claim.sent_bytes - before)

    def forget(self, flow: FlowId) -> None:
        """It is through."""
        sent_bytes = self._sent_bytes.get(flow.job, {})
        sent_bytes.pop(flow, None)
        if not sent_bytes:
            self._sent_bytes.pop(flow.job, None)

    def overdrawn(self, contenders: Mapping[str, Contender], now_ns: int) -> frozenset[str]:
        """Of the jobs that are here now, after what was in force until now."""
        # The links are divided several times a slot: more has passed where the clock was set or the switch stood still.
        elapsed_ns, self._now_ns = min(self._slot_ns, max(0, now_ns - self._now_ns)), now_ns
        for account in self._accounts.values():
            account.advance(elapsed_ns)
            account.given = account.fair = account.rate_bps = 0.0
            account.divided = False
            if account.present and account.contender.job not in contenders:
                account.present = False
                account.observed.left(now_ns)
        for job, contender in contenders.items():
            account = self._accounts.setdefault(job, _Account(contender))
            if not account.present:
                account.watch(now_ns)
                account.observed.came(now_ns)
            account.contender, account.present, account.heard_ns = contender, True, now_ns
            account.judge(now_ns, self._slot_ns)
        self._accounts = {job: one for job, one in self._accounts.items() if now_ns - one.heard_ns <= MEMORY_S * 1e9}
        return frozenset(
            job for job in contenders if self._accounts[job].idle or self._accounts[job].ahead_s > MOST_AHEAD_S
        )

    def believed(self, contender: Contender) -> Contender:
        """With the bid as far as the switch believes it; after `overdrawn` of this division."""
        account = self._accounts[contender.job]
        if account.ahead_s < -BEHIND_S:
            return contender
        return replace(contender, bid=account.observed.believed(contender.bid))

    def enter(
        self, members: Sequence[Contender], shares_bps: Mapping[str, float], capacity_bps: Mapping[str, float]
    ) -> None:
        """The jobs of a group, and at which rate each flow of a job may send from now on."""
        links = {link for member in members for link in member.flows_on}
        through = [
            account.contender
            for account in self._accounts.values()
            if not account.present and account.ahead and not links.isdisjoint(account.contender.flows_on)
        ]
        for member in members:
            account = self._accounts[member.job]
            account.divided = True
            account.rate_bps = shares_bps[member.job] * len(self._sent_bytes[member.job])
            account.given = shares_bps[member.job] / member.alone_bps(capacity_bps)
        counted = [member for member in members if not self._accounts[member.job].idle]
        counted += [one for one in through if all(link in capacity_bps for link in one.flows_on)]
        for member, fair_bps in zip(counted, max_min_shares(counted, capacity_bps), strict=True):
            self._accounts[member.job].fair = fair_bps / member.alone_bps(capacity_bps)
