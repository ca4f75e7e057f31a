"""What host and switch tell each other, one message each way.

A Report carries a host's claims; Feedback answers for each flow what the links on its path have promised. A claim
without a plan is the paper's fetch_feedback, one with a plan its update_schedule (§V); batching both into one message
is what lets one stream per host do (see docs/design.md). Rates are bits per second, volumes bytes, times nanoseconds,
slots absolute.
"""

from dataclasses import dataclass
from typing import NamedTuple

from paceline.flowcore.model.patterns import FlowId

NO_ANSWER = -1


class Bid(NamedTuple):
    """What a job puts forward when other jobs want its links too; the arbiter of the policy reads it."""

    urgency: float  # on the policy's own scale, larger is more urgent
    compute_ns: float = 0.0  # c: how long it will need no link once it is through
    remaining_ns: float = 0.0  # r: how long it would still take with the links to itself


class Claim(NamedTuple):
    """One flow that has, or soon will have, bytes to send."""

    flow: FlowId
    path: tuple[str, ...]  # names of the links it crosses, in order
    size_bytes: float  # of the whole iteration
    bid: Bid
    sent_bytes: float  # F_i: sent so far, counted over all iterations (see dependency.py) ...
    planned_bytes: float  # ... and planned for what is left of the current slot
    upstream: tuple[FlowId, ...]  # the flows that feed it, whose F the switch relays, ...
    downstream: tuple[FlowId, ...]  # ... and those it feeds
    plan_bps: tuple[float, ...] = ()  # mean rate per slot from Report.first_slot on; empty: only asking
    promised_bytes: float = 0.0  # what it could have sent so far at the rates it was guaranteed, while it had something
    weight: float = 1.0  # of its job: the bid is worth so many times as much
    weighable: bool = False  # its host can make it count for several flows beside cross traffic
    unstoppable: bool = False  # its burst has begun, and its host can hold launches only


class Withdrawal(NamedTuple):
    """A flow that is through with its iteration, or will be by the time this is read."""

    flow: FlowId
    volume_bytes: float  # F_i at the end, for those that depend on it; UNLIMITED: they need not wait for it
    left: bool = False  # its job has left its host, or is left to TCP there: it competes with nobody any more


@dataclass(frozen=True, slots=True)
class Report:
    """Host to switch: renews the table entry of every flow it names."""

    sender: str
    number: int  # counts the sender's reports, so that an answer can be told from a push
    first_slot: int
    claims: tuple[Claim, ...]
    withdrawn: tuple[Withdrawal, ...] = ()
    others_bps: float = 0.0  # load of cross traffic on the sender's own uplinks together; only a host's word counts


class Grant(NamedTuple):
    """What the links of one switch (after merging: of the whole path) say to one flow."""

    flow: FlowId
    accepted: bool  # the plan in the report, if there was one, is now in the table
    share_bps: float  # what arbitration gives it now; 0 where the policy has no arbitration
    ceiling_bps: float  # how far it may borrow without touching what other hosts were given
    available_bps: tuple[float, ...]  # min_l (u_l - b_l(t)), its own plan taken out
    load: tuple[float, ...]  # Σ_l b_l(t)/u_l, its own plan taken out
    alone_ns: int  # how long the job's whole exchange takes with these links to itself
    upstream_bytes: float  # least F of its upstream flows, inf if it has none
    downstream_bytes: float  # greatest F of its downstream flows, 0 if none
    stands_for: float = 1.0  # beside cross traffic it is to count for so many flows
    uncontended: bool = False  # no other job has claimed any of these links lately


@dataclass(frozen=True, slots=True)
class Feedback:
    """Switch to host: the answer to a report, or a push because other hosts' reports changed what is available."""

    sender: str
    answers: int  # the number of the report, NO_ANSWER for a push
    first_slot: int
    grants: tuple[Grant, ...]
    silent: tuple[str, ...] = ()  # switches the sender has lost: their links are missing from the grants
    contended: tuple[FlowId, ...] = ()  # no longer uncontended, as they were told; they may have no claim
