"""What goes in and out of the two state machines: events are facts, effects are requests to the shell.

Host and switch speak two messages, one each way. A Report carries a host's claims; Feedback answers for each
flow what the links on its path have promised. A claim without a plan is the paper's fetch_feedback, one with a
plan its update_schedule (§V); batching both into one message is what lets one stream per host do (see
docs/design.md). Rates are bits per second, volumes bytes, times nanoseconds, slots absolute.
"""

from dataclasses import dataclass
from typing import NamedTuple

from paceline.flowcore.model.patterns import FlowId, FlowSpec

# ---- Host to switch ----


NO_ANSWER = -1


class Bid(NamedTuple):
    """What a job puts forward when somebody else wants its links too; the arbiter of the policy reads it."""

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
    preds: tuple[FlowId, ...]  # whose F the switch should relay, ...
    followers: tuple[FlowId, ...]  # ... and those it feeds
    plan_bps: tuple[float, ...] = ()  # mean rate per slot from Report.first_slot on; empty: only asking
    promised_bytes: float = 0.0  # what it could have sent so far at the rates it was guaranteed, while it had something


class Withdrawal(NamedTuple):
    """A flow that is through with its iteration, or will be by the time this is read."""

    flow: FlowId
    volume_bytes: float  # F_i at the end, for those that depend on it


@dataclass(frozen=True, slots=True)
class Report:
    """Host to switch: renews the lease of every flow it names."""

    sender: str
    number: int  # counts the sender's reports, so that an answer can be told from a push
    first_slot: int
    claims: tuple[Claim, ...]
    withdrawn: tuple[Withdrawal, ...] = ()


# ---- Switch to host ----


class Grant(NamedTuple):
    """What the links of one switch (after merging: of the whole path) say to one flow."""

    flow: FlowId
    accepted: bool  # the plan in the report, if there was one, is now in the table
    share_bps: float  # what arbitration gives it now; 0 where the policy has no arbitration
    ceiling_bps: float  # how far it may borrow without touching what other hosts were given
    available_bps: tuple[float, ...]  # min_l (u_l - b_l(t)), its own plan taken out
    load: tuple[float, ...]  # Σ_l b_l(t)/u_l, its own plan taken out
    alone_ns: int  # how long the job's whole exchange takes on these links with nobody else
    pred_bytes: float  # least F of its preds, inf if it has none
    follower_bytes: float  # greatest F of those it feeds, 0 if none


@dataclass(frozen=True, slots=True)
class Feedback:
    """Switch to host: the answer to a report, or a push because somebody else changed what is available."""

    sender: str
    answers: int  # the number of the report, NO_ANSWER for a push
    first_slot: int
    grants: tuple[Grant, ...]
    silent: tuple[str, ...] = ()  # switches the sender has lost: their links are missing from the grants


# ---- Between switches: who may send now, where jobs of several racks meet (arena.py) ----


class Share(NamedTuple):
    """What arbitration gives a flow: a guaranteed rate, and how far beyond it may borrow."""

    flow: FlowId
    share_bps: float
    ceiling_bps: float


@dataclass(frozen=True, slots=True)
class Contest:
    """Child to parent: claims whose group of jobs reaches beyond the child; renews their lease."""

    sender: str
    claims: tuple[Claim, ...]
    withdrawn: tuple[FlowId, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Parent to child: the shares that changed."""

    sender: str
    shares: tuple[Share, ...]


# ---- The job, as the host's monitor sees it ----


@dataclass(frozen=True, slots=True)
class JobJoined:
    """A job with a worker or server here, and the flows this host sends for it."""

    job: str
    flows: tuple[FlowSpec, ...]
    followers: tuple[tuple[FlowId, tuple[FlowId, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class JobLeft:
    job: str


@dataclass(frozen=True, slots=True)
class FlowReady:
    """The flow has its iteration's bytes waiting (a pull: its server began to receive)."""

    flow: FlowId
    iteration: int  # from 0, the same number on every host of the job


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters read from the shim or the kernel: bytes sent in the current iteration. Read before deciding."""

    sent_bytes: tuple[tuple[FlowId, float], ...]
    idle: tuple[FlowId, ...] = ()  # of these, who has nothing that the network has not taken: no link holds it back


@dataclass(frozen=True, slots=True)
class FlowDone:
    flow: FlowId


@dataclass(frozen=True, slots=True)
class IterationEnded:
    """This host's part of the iteration is over and the next one begins with its compute phase."""

    job: str


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The switch has taken us in and says when in a slot to report, so that its hosts do not all come at once."""

    phase_ns: int


@dataclass(frozen=True, slots=True)
class ClockSet:
    """The clock that all share is another: what was at one time is now `by_ns` later on it, or earlier."""

    by_ns: int


@dataclass(frozen=True, slots=True)
class SwitchLost:
    """The stream to the switch broke; the shell noticed before the silence did."""


@dataclass(frozen=True, slots=True)
class Tick:
    """`next_deadline()` has come."""


@dataclass(frozen=True, slots=True)
class PeersLost:
    """These switches cannot be reached; the shell noticed before their silence did."""

    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeersFound:
    """A way to these switches is open again; those that nobody asks would otherwise stay silent for ever."""

    peers: tuple[str, ...]


HostEvent = (
    JobJoined
    | JobLeft
    | FlowReady
    | Progress
    | FlowDone
    | IterationEnded
    | Feedback
    | Welcomed
    | ClockSet
    | SwitchLost
    | Tick
)
SwitchEvent = Report | Feedback | Contest | Verdict | PeersLost | PeersFound | Tick
Message = Report | Feedback | Contest | Verdict


# ---- Effects ----


@dataclass(frozen=True, slots=True)
class Send:
    """Deliver a message to a host or switch by name; it may be late or lost, never altered."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class SetRate:
    """Guarantee `rate_bps` and allow borrowing up to `ceiling_bps` (HTB's rate and ceil; inf lifts the limit)."""

    flow: FlowId
    rate_bps: float
    ceiling_bps: float


Effect = Send | SetRate
