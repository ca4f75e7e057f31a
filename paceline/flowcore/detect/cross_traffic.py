"""Links shared with cross traffic, flows of no job: jobs' flows carry less there than they were promised.

Taking turns pays while a link carries jobs only. Beside k flows TCP leaves a flow of cross traffic one part in k + 1;
beside the one flow whose turn it is, a half, while the jobs that wait get nothing. So what the flows of a link were
promised is compared with what they have sent, both as their hosts count them. Where it is much less, the link is shared
and no job waits for a turn there (switch/division.py): TCP divides it as if there were no turns, until what is promised
is carried again.

Where who sends can stand for those that wait (switch/standing.py), turns go on on a shared link, and little is lost by
taking one for shared that is not. So a link is believed to be shared sooner if all its flows are weighable: flows that
wait on the sender's host borrow what cross traffic leaves of its share, and k of them carry k parts in k + 1.

What holds a flow up that is no link (its job computes, its upstream flows are late) is no sign of cross traffic:
promises count while it has something to send. What else slows a flow down, a machine short of CPU, cannot be told from
cross traffic; but then the flow whose turn it is does not need the whole link either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import transfer_bytes

# A link is judged when so many slots' worth of it has been promised. Half of that was too nervous: real flows on a busy
# machine fall behind for a slot or two now and then.
ENOUGH_SLOTS = 4
FRESH_SLOTS = 8  # promises that take longer to add up say nothing about now

# Beside one flow of cross traffic a single flow gets a half, k flows get k/(k + 1).
CARRIED = 0.6  # of the promises, by the flows whose turn it is: with less the link is shared ...
STILL = 0.9  # ... and stays so until all flows that want it together carry so much

HOLD_SLOTS = 12  # then it is tried again, whatever was promised meanwhile

# Between the two it cannot be told: cross traffic, or hosts that are not as fast as their link. So turns are tried for
# a while, and where that was wrong, tried again after twice as long.
FIRST_TRY_SLOTS, LAST_TRY_SLOTS = 2 * HOLD_SLOTS, 64 * HOLD_SLOTS

# For so long who sends still counts for those that wait (switch/standing.py): where nobody else sends that changes
# nothing, and cross traffic that comes back would have a head start for as long as it takes to notice it.
RECENT_SLOTS = 160
SMOOTHED = 0.25  # the weight of the last few slots in what senders get of a shared link

# Instead of ENOUGH_SLOTS and CARRIED, of links whose flows are all weighable; no turns without weights are tried there.
ENOUGH_SLOTS_WEIGHED, CARRIED_WEIGHED = 2, 0.85


class SharedLinks(NamedTuple):
    now: frozenset[str] = frozenset()  # links that carry cross traffic
    recent: Mapping[str, float] = {}  # these and those that did not long ago; what senders get then of their promises


@dataclass(slots=True)
class _Link:
    since_ns: int = 0
    promised_bytes: float = 0.0
    carried_bytes: float = 0.0
    senders_bytes: float = 0.0  # of what was carried, by flows with promises ...
    senders_part: float = 1.0  # ... and of what was promised, while the link was shared
    shared_until_ns: int = 0
    recent_until_ns: int = 0
    try_ns: int = 0  # when turns are tried again ...
    tried_ns: int = 0  # ... and when they last were
    wait_slots: int = FIRST_TRY_SLOTS
    unweighable: int = 0  # flows that cross it

    def begin(self, now_ns: int) -> None:
        self.since_ns, self.promised_bytes, self.carried_bytes, self.senders_bytes = now_ns, 0.0, 0.0, 0.0


class CrossTrafficDetector:
    def __init__(self, capacity_bps: Mapping[str, float], slot_ns: int, *, weighs: bool = True) -> None:
        """`weighs`: who sends stands for those that wait, where flows are weighable."""
        self._capacity_bps, self._slot_ns, self._weighs = capacity_bps, slot_ns, weighs
        self._links: dict[str, _Link] = {}
        self._last: dict[FlowId, tuple[float, float]] = {}  # promised and sent by a flow's last report
        self._unweighable: dict[FlowId, list[_Link]] = {}  # with the links that they cross

    def found(self, now_ns: int) -> SharedLinks:
        recent = {name: link for name, link in self._links.items() if now_ns < link.recent_until_ns}
        now = frozenset(name for name, link in recent.items() if now_ns < link.shared_until_ns)
        return SharedLinks(now, {name: link.senders_part for name, link in recent.items()})

    def forget(self, flow: FlowId) -> None:
        self._last.pop(flow, None)
        for link in self._unweighable.pop(flow, ()):
            link.unweighable -= 1

    def heard(self, claim: Claim, now_ns: int) -> bool:
        """A flow's report. True if a link of its path is shared with cross traffic from now on, or not any more."""
        report = (claim.promised_bytes, claim.sent_bytes)
        before = self._last.get(claim.flow, report)
        self._last[claim.flow] = report
        promised, carried = (max(0.0, now - then) for now, then in zip(report, before, strict=True))
        here = {name: self._links.setdefault(name, _Link()) for name in claim.path if name in self._capacity_bps}
        self._count(claim, list(here.values()))
        news = False
        for name, link in here.items():
            link.promised_bytes += promised
            link.carried_bytes += carried
            link.senders_bytes += carried if promised else 0.0
            news |= self._judge(link, self._capacity_bps[name], now_ns)
        return news

    def _count(self, claim: Claim, links: list[_Link]) -> None:
        if claim.weighable != (claim.flow in self._unweighable):
            return  # as before
        if claim.weighable:
            for link in self._unweighable.pop(claim.flow):
                link.unweighable -= 1
        else:
            self._unweighable[claim.flow] = links
            for link in links:
                link.unweighable += 1

    def _judge(self, link: _Link, capacity_bps: float, now_ns: int) -> bool:
        if now_ns - link.since_ns > FRESH_SLOTS * self._slot_ns:
            link.begin(now_ns)
        weighed = self._weighs and not link.unweighable
        enough_slots = ENOUGH_SLOTS_WEIGHED if weighed else ENOUGH_SLOTS
        if link.promised_bytes < transfer_bytes(capacity_bps, enough_slots * self._slot_ns):
            return False
        was_shared = now_ns < link.shared_until_ns
        carried = link.carried_bytes / link.promised_bytes
        shared = carried < (STILL if was_shared else CARRIED_WEIGHED if weighed else CARRIED)
        if shared and not was_shared:
            wrong = link.tried_ns and now_ns - link.tried_ns < link.wait_slots * self._slot_ns
            link.wait_slots = min(2 * link.wait_slots, LAST_TRY_SLOTS) if wrong else FIRST_TRY_SLOTS
            link.try_ns = now_ns + link.wait_slots * self._slot_ns
        elif shared and not weighed and carried >= CARRIED and now_ns >= link.try_ns:
            shared, link.tried_ns = False, now_ns
        link.shared_until_ns = now_ns + HOLD_SLOTS * self._slot_ns if shared else now_ns
        if shared:
            weight = SMOOTHED if now_ns < link.recent_until_ns else 1.0
            link.senders_part += weight * (link.senders_bytes / link.promised_bytes - link.senders_part)
            link.recent_until_ns = now_ns + RECENT_SLOTS * self._slot_ns
        link.begin(now_ns)
        return shared != was_shared
