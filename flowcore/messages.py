"""What goes in and out of the two state machines: events are facts, effects are requests to the shell.

Host and switch speak two messages, one each way. A Report carries a host's claims; Feedback answers for each
flow what the links on its path have promised. A claim without a plan is the paper's fetch_feedback, one with a
plan its update_schedule (§V); batching both into one message is what lets one stream per host do (see
docs/design.md). Rates are bits per second, volumes bytes, times nanoseconds, slots absolute.
"""

from dataclasses import dataclass

from flowcore.patterns import FlowId, FlowSpec


# ---- Host to switch ----


@dataclass(frozen=True, slots=True)
class Claim:
    """One flow that has, or soon will have, bytes to send."""

    flow: FlowId
    path: tuple[str, ...]  # names of the links it crosses, in order
    size_bytes: float  # of the whole iteration
    bid: float  # how urgent, on the policy's own scale; larger goes first
    limit_bps: float  # more than this it could not use (B_i)
    sent_bytes: float  # F_i: sent so far, counted over all iterations (see dependency.py) ...
    planned_bytes: float  # ... and planned for what is left of the current slot
    preds: tuple[FlowId, ...]  # whose F the switch should relay, ...
    followers: tuple[FlowId, ...]  # ... and those it feeds
    plan_bps: tuple[float, ...] = ()  # mean rate per slot from Report.first_slot on; empty: only asking


@dataclass(frozen=True, slots=True)
class Report:
    """Host to switch: renews the lease of every flow it names."""

    sender: str
    first_slot: int
    claims: tuple[Claim, ...]
    withdrawn: tuple[FlowId, ...] = ()


# ---- Switch to host ----


@dataclass(frozen=True, slots=True)
class Grant:
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
    first_slot: int
    grants: tuple[Grant, ...]


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


@dataclass(frozen=True, slots=True)
class FlowDone:
    flow: FlowId


@dataclass(frozen=True, slots=True)
class IterationEnded:
    """This host's part of the iteration is over and the next one begins with its compute phase."""

    job: str


@dataclass(frozen=True, slots=True)
class SwitchLost:
    """The stream to the switch broke; the shell noticed before the silence did."""


@dataclass(frozen=True, slots=True)
class Tick:
    """`next_deadline()` has come."""


HostEvent = (
    JobJoined | JobLeft | FlowReady | Progress | FlowDone | IterationEnded | Feedback | SwitchLost | Tick
)
SwitchEvent = Report | Feedback | Tick


# ---- Effects ----


@dataclass(frozen=True, slots=True)
class Send:
    """Deliver a message to a host or switch by name; it may be late or lost, never altered."""

    to: str
    message: Report | Feedback


@dataclass(frozen=True, slots=True)
class SetRate:
    """Guarantee `rate_bps` and allow borrowing up to `ceiling_bps` (HTB's rate and ceil; inf lifts the limit)."""

    flow: FlowId
    rate_bps: float
    ceiling_bps: float


Effect = Send | SetRate
