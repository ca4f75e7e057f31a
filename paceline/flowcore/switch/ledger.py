"""What each job was given of the links, beside what an equal share would have given it.

Bids are what hosts say. A host may lie or be wrong, and a job that bids high enough would have the links for ever. What
the switch gave a job is no host's word, so the switch keeps a ledger: it says what a bid is worth (observed_job.py),
and which jobs have had too much. With y_j the part of its best rate that job j is
given, and f_j the part that max-min sharing by weight would give it among the jobs that are here or ahead,

    A_j(t) = ∫ e^{−(t−u)/MEMORY} (y_j − f_j) du        seconds of link time that job j is ahead of an equal share

A job that is ahead by more than MOST_AHEAD is *overdrawn*: it gets what the other jobs leave. Taking turns puts a job
ahead by a burst and then behind by one, so honest jobs are seldom overdrawn. A job that lies gains MOST_AHEAD once, and
MOST_AHEAD/MEMORY of a link for as long as it lies. A job that is through stays in the ledger while it is ahead: with
equal shares it would still be sending. A job that is behind by more than BEHIND is believed whatever it bids, until it
has caught up: it can gain no more than an equal share, and what the switch has seen of a job that was killed and began
again may be wrong. (Believed no longer than it is BEHIND, jobs in a crowd had a turn of a few milliseconds each.)

A flow that has had a share for WATCHED_SLOTS and sent nothing is *unmoved*, and does not count among its job's flows:
its job may hang, or another's host has named the job. An honest host withdraws such a claim (detect/stalls.py), but for
a flow that waits for its job's other flows, as a pull does. So it counts again now and then, ever more seldom: when it
has been still for 8, 16, 32 … times as long. A job whose flows are all unmoved is overdrawn until bytes move.

Hosts report one after the other, so that a bid is up to a slot old, and older than the bid it is held against. What its
job was given since then is taken from what it says remains. Otherwise, of two equal bursts, whichever was heard of last
would look the shorter one, and they would take turns of half a slot: both would end late, as under TCP.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paceline.flowcore.allocation.arbiters import Contender, max_min_shares
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.switch.observed_job import ObservedJob

# With a quarter of MOST_AHEAD honest jobs are held back too: random mixes have 1 % more mean slowdown. With half of it
# a job that hangs shifts the turns of the others (tests/sim/test_hung_jobs.py).
MEMORY_S = 60.0
MOST_AHEAD_S = 2.0
BEHIND_S = 0.2

CLAIMS_AGAIN_SLOTS = 1.5  # a flow that was not through as it had foreseen claims again with the next slot's report
WATCHED_SLOTS = 4  # a flow is heard of once a slot, and now and then late
ASKED_AGAIN = 8  # times WATCHED_SLOTS
_LEAST_AHEAD_S = 1e-3  # a job that is through and ahead by less counts no more


@dataclass(slots=True)
class _Account:
    contender: Contender  # as it last was
    ahead_s: float = 0.0
    catches_up: bool = False  # from when it was BEHIND_S behind until it is so no longer
    present: bool = False
    observed: ObservedJob = field(default_factory=ObservedJob)
    heard_ns: int = 0
    divided: bool = False  # here: else another switch gives it something
    given: float = 0.0  # y_j in force ...
    fair: float = 0.0  # ... and f_j
    served_ns: int = 0  # how long it has had a share, ever
    given_s: float = 0.0  # ∫ y_j dt, ever

    @property
    def ahead(self) -> bool:
        return self.ahead_s > _LEAST_AHEAD_S

    def advance(self, elapsed_ns: int) -> None:
        elapsed_s = elapsed_ns / 1e9
        given = self.given if self.present else 0.0  # what unmoved flows were given, no job has had
        ahead_s = self.ahead_s * math.exp(-elapsed_s / MEMORY_S) + (given - self.fair) * elapsed_s
        self.ahead_s = max(-MOST_AHEAD_S, ahead_s)  # no job may save up for a long absence of the others
        if self.ahead_s < -BEHIND_S:
            self.catches_up = True
        elif self.ahead_s >= 0.0:
            self.catches_up = False
        self.served_ns += elapsed_ns if self.given > 0.0 else 0
        self.given_s += given * elapsed_s
        if self.divided or not self.present:
            self.observed.advance(elapsed_s, given if self.present else None, self.contender.weight)


@dataclass(slots=True)
class _FlowSeen:
    sent_bytes: float
    still_since_ns: int  # its job's served_ns when its bytes last moved, or when it came
    claimed: bool = True
    moved: bool = False  # ever
    given_s: float = 0.0  # its job, by the time of its last claim


class Ledger:
    def __init__(self, slot_ns: int) -> None:
        self._slot_ns = slot_ns
        self._accounts: dict[str, _Account] = {}
        self._flows: dict[str, dict[FlowId, _FlowSeen]] = {}  # of each job
        self._now_ns = 0
        self._age_ns = 0  # dates are by this, not by the clock

    def heard(self, claim: Claim, now_ns: int) -> None:
        flows, account = self._flows.setdefault(claim.flow.job, {}), self._accounts.get(claim.flow.job)
        served_ns = 0 if account is None else account.served_ns
        seen = flows.setdefault(claim.flow, _FlowSeen(claim.sent_bytes, served_ns))
        if claim.sent_bytes != seen.sent_bytes and seen.claimed:
            seen.moved, seen.still_since_ns = True, served_ns
        elif seen.moved and not seen.claimed:  # a flow that never moved comes again as what it was
            seen.still_since_ns = served_ns
        seen.sent_bytes, seen.claimed, seen.given_s = claim.sent_bytes, True, self._given_s(claim.flow.job, now_ns)

    def bid(self, claim: Claim, now_ns: int) -> Bid:
        """What the host would say now, if what its job was given since has moved."""
        given_s = self._given_s(claim.flow.job, now_ns) - self._flows[claim.flow.job][claim.flow].given_s
        return claim.bid._replace(remaining_ns=max(0.0, claim.bid.remaining_ns - given_s * 1e9))

    def _given_s(self, job: str, now_ns: int) -> float:
        account = self._accounts.get(job)
        if account is None:
            return 0.0
        lately_ns = min(self._slot_ns, max(0, now_ns - self._now_ns)) if account.present else 0
        return account.given_s + account.given * lately_ns / 1e9

    def forget(self, flow: FlowId) -> None:
        """It is through."""
        seen = self._flows.get(flow.job, {}).get(flow)
        if seen is not None:
            seen.claimed = False

    def forget_job(self, job: str) -> None:
        """It begins anew when it comes again."""
        self._accounts.pop(job, None)
        self._flows.pop(job, None)

    def unmoved(self, flow: FlowId) -> bool:
        account = self._accounts.get(flow.job)
        if account is None:
            return False
        still_ns = account.served_ns - self._flows[flow.job][flow].still_since_ns
        periods = still_ns // (WATCHED_SLOTS * self._slot_ns)
        asked_again = periods >= ASKED_AGAIN and periods & (periods - 1) == 0  # a power of two
        return periods > 0 and not asked_again

    def overdrawn(
        self, contenders: Mapping[str, Contender], now_ns: int, still: frozenset[str] = frozenset()
    ) -> frozenset[str]:
        """Of the jobs that are here now, after what was in force until now. `still`: all their flows are unmoved."""
        elapsed_ns = self._pass(now_ns)
        for account in self._accounts.values():
            account.advance(elapsed_ns)
            account.given = account.fair = 0.0
            account.divided = False
            if account.present and (account.contender.job not in contenders or account.contender.job in still):
                account.present = False
                account.observed.left(self._age_ns)
        for job, contender in contenders.items():
            account = self._accounts.setdefault(job, _Account(contender))
            account.contender, account.heard_ns = contender, self._age_ns
            if job not in still and not account.present:
                account.present = True
                account.observed.came(self._age_ns, CLAIMS_AGAIN_SLOTS * self._slot_ns)
        oldest_ns = self._age_ns - MEMORY_S * 1e9
        self._accounts = {job: account for job, account in self._accounts.items() if account.heard_ns >= oldest_ns}
        self._flows = {job: flows for job, flows in self._flows.items() if job in self._accounts}
        return still | {job for job in contenders if self._accounts[job].ahead_s > MOST_AHEAD_S}

    def _pass(self, now_ns: int) -> int:
        """The time since the last division, which becomes part of the ledger's age.

        While jobs are here the links are divided several times a slot: more has passed only where the clock was set or
        the switch stood still, and such time is no job's burst and no job's computing.
        """
        elapsed_ns, self._now_ns = max(0, now_ns - self._now_ns), now_ns
        if any(account.present for account in self._accounts.values()):
            elapsed_ns = min(self._slot_ns, elapsed_ns)
        self._age_ns += elapsed_ns
        return elapsed_ns

    def believed(self, contender: Contender) -> Contender:
        """With the bid as far as the switch believes it; after `overdrawn` of this division."""
        account = self._accounts[contender.job]
        if account.catches_up:
            return contender
        return replace(contender, bid=account.observed.believed(contender.bid, contender.weight))

    def enter(
        self, members: Sequence[Contender], shares_bps: Mapping[str, float], capacity_bps: Mapping[str, float]
    ) -> None:
        """The jobs of a group, and at which rate each flow of a job may send from now on."""
        here, links = {member.job for member in members}, {link for member in members for link in member.flows_on}
        through = [
            account.contender
            for job, account in self._accounts.items()
            if job not in here and account.ahead and not links.isdisjoint(account.contender.flows_on)
        ]
        for member in members:
            account = self._accounts[member.job]
            account.divided = True
            account.given = shares_bps[member.job] / member.alone_bps(capacity_bps)
        counted = [member for member in members if self._accounts[member.job].present]
        counted += [one for one in through if all(link in capacity_bps for link in one.flows_on)]
        for member, fair_bps in zip(counted, max_min_shares(counted, capacity_bps, by_weight=True), strict=True):
            self._accounts[member.job].fair = fair_bps / member.alone_bps(capacity_bps)
