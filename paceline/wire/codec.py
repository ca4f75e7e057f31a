"""flowcore's messages to protobuf and back: nothing beyond this module and its callers' streams sees protobuf.

Law: from_wire(to_wire(message)) == message, and whatever a peer sends either is a valid message or raises BadMessage.
A message may come from anywhere, so columns are checked for length and numbers for sense before anything is built.

Paths are not on the wire. `Routes` finds them, and remembers: the same flows come again in every slot.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain

from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import Message
from paceline.flowcore.messages.reports import NO_ANSWER, Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import Topology, UnknownHostError
from paceline.wire import control_pb2 as pb

# An exabyte, an exabit per second and 30 years in nanoseconds all fit below; what does not is absurd.
LARGEST = 1e18

# Urgency is on the policy's own scale; fifo's is minus the time since 1970.
MOST_URGENT = 1e19

MAX_SLOT = 2**62
MAX_NUMBER = 2**63 - 1  # of a report: the answer names it in a signed field
MAX_ALONE_NS = 10**18
MAX_NAME_CHARS = 300
KNOWN_FLOWS = 65_536  # texts and paths remembered, about 30 MB when full


class BadMessage(ValueError):
    """What arrived is no valid message; `reason` is one word to count it by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@lru_cache(KNOWN_FLOWS)
def flow_of(text: str) -> FlowId:
    job, _, rest = text[:MAX_NAME_CHARS].rpartition("/")
    job, _, role = job.rpartition("/")
    source, arrow, target = rest.partition(">")
    if not (job and arrow and source and target) or len(text) > MAX_NAME_CHARS or not text.isprintable():
        raise BadMessage("flow", f"found {text[:60]!r}, expected job/role/source>target")
    try:
        return FlowId(job, source, target, Role(role))
    except ValueError:
        raise BadMessage("flow", f"found role {role[:20]!r}, expected one of {', '.join(Role)}") from None


@lru_cache(KNOWN_FLOWS)
def text_of(flow: FlowId) -> str:
    return str(flow)


class Routes:
    """The links of a flow, by the topology both ends were given."""

    def __init__(self, topology: Topology) -> None:
        @lru_cache(KNOWN_FLOWS)
        def path(flow: FlowId) -> tuple[str, ...]:
            try:
                links = topology.path(flow.source, flow.target, str(flow))
            except UnknownHostError as error:
                raise BadMessage("flow", f"{flow}: {error}") from None
            if not links:
                raise BadMessage("flow", f"{flow} crosses no link")
            return links

        self.path = path


# ---- To the wire ----


def claims_to_wire(claims: Sequence[Claim]) -> pb.Claims:
    if not claims:
        return pb.Claims()
    flows, _, size_bytes, bids, sent_bytes, planned_bytes, upstream, downstream, plans_bps, promised = zip(
        *claims, strict=True
    )
    urgency, compute_ns, remaining_ns = zip(*bids, strict=True)
    return pb.Claims(
        flow=map(text_of, flows),
        size_bytes=size_bytes,
        urgency=urgency,
        compute_ns=compute_ns,
        remaining_ns=remaining_ns,
        sent_bytes=sent_bytes,
        planned_bytes=planned_bytes,
        upstream_count=map(len, upstream),
        upstream=map(text_of, chain.from_iterable(upstream)),
        downstream_count=map(len, downstream),
        downstream=map(text_of, chain.from_iterable(downstream)),
        plan_slots=map(len, plans_bps),
        plan_bps=chain.from_iterable(plans_bps),
        promised_bytes=promised if any(promised) else (),
    )


def report_to_wire(report: Report) -> pb.Report:
    return pb.Report(
        sender=report.sender,
        number=report.number,
        first_slot=report.first_slot,
        claims=claims_to_wire(report.claims),
        withdrawn=[text_of(flow) for flow, _ in report.withdrawn],
        withdrawn_bytes=[volume_bytes for _, volume_bytes in report.withdrawn],
    )


def feedback_to_wire(feedback: Feedback) -> pb.Feedback:
    wire = pb.Feedback(
        sender=feedback.sender, answers=feedback.answers, first_slot=feedback.first_slot, silent=feedback.silent
    )
    if feedback.grants:
        flows, accepted, share_bps, ceiling_bps, available_bps, load, alone_ns, upstream_bytes, downstream_bytes = zip(
            *feedback.grants, strict=True
        )
        wire.flow.extend(map(text_of, flows))
        wire.accepted.extend(accepted)
        wire.share_bps.extend(share_bps)
        wire.ceiling_bps.extend(ceiling_bps)
        wire.available_bps.extend(chain.from_iterable(available_bps))
        wire.load.extend(chain.from_iterable(load))
        wire.alone_ns.extend([min(ns, MAX_ALONE_NS) for ns in alone_ns])  # a host may claim to have exabytes
        wire.upstream_bytes.extend(upstream_bytes)
        wire.downstream_bytes.extend(downstream_bytes)
    return wire


def envelope(source: str, to: str, message: Message) -> pb.Envelope:
    match message:
        case Report():
            return pb.Envelope(source=source, to=to, report=report_to_wire(message))
        case Feedback():
            return pb.Envelope(source=source, to=to, feedback=feedback_to_wire(message))
        case EscalatedClaims(sender, claims, withdrawn):
            names = map(text_of, withdrawn)
            escalated = pb.EscalatedClaims(sender=sender, claims=claims_to_wire(claims), withdrawn=names)
            return pb.Envelope(source=source, to=to, escalated_claims=escalated)
        case ShareUpdate(sender, shares):
            verdict = pb.ShareUpdate(
                sender=sender,
                flow=[text_of(share.flow) for share in shares],
                share_bps=[share.share_bps for share in shares],
                ceiling_bps=[share.ceiling_bps for share in shares],
            )
            return pb.Envelope(source=source, to=to, share_update=verdict)


# ---- From the wire ----


def report_from_wire(wire: pb.Report, routes: Routes) -> Report:
    gone, gone_bytes = _flows(wire.withdrawn), wire.withdrawn_bytes[:]
    _same_length("withdrawn", len(gone), gone_bytes)
    _check(withdrawn_bytes=gone_bytes)
    if wire.number > MAX_NUMBER:
        raise BadMessage("numbers", f"found report number {wire.number}, expected at most {MAX_NUMBER}")
    return Report(
        wire.sender,
        wire.number,
        _slot(wire.first_slot),
        _claims(wire.claims, routes),
        tuple(map(Withdrawal, gone, gone_bytes)),
    )


def feedback_from_wire(wire: pb.Feedback) -> Feedback:
    flows = _flows(wire.flow)
    count = len(flows)
    accepted, share_bps, ceiling_bps, alone_ns, upstream_bytes, downstream_bytes = _columns(wire, _GRANT_COLUMNS, count)
    available_bps, load = wire.available_bps[:], wire.load[:]
    horizon = len(load) // max(count, 1)
    if count and (not horizon or len(load) != horizon * count or len(available_bps) != horizon * count):
        raise BadMessage("shape", "available_bps and load are not K numbers per flow")
    if wire.answers < NO_ANSWER:
        raise BadMessage("numbers", f"found answers {wire.answers}, expected {NO_ANSWER} or more")
    _check(share_bps=share_bps, load=load, alone_ns=alone_ns)
    _check(math.inf, ceiling_bps=ceiling_bps, available_bps=available_bps)
    _check(math.inf, upstream_bytes=upstream_bytes, downstream_bytes=downstream_bytes)
    rooms, loads = (_rows(column, [horizon] * count) for column in (available_bps, load))
    volumes = (upstream_bytes, downstream_bytes)
    grants = map(_grant, zip(flows, accepted, share_bps, ceiling_bps, rooms, loads, alone_ns, *volumes, strict=True))
    return Feedback(wire.sender, wire.answers, _slot(wire.first_slot), tuple(grants), tuple(wire.silent))


def message_from(letter: pb.Envelope, routes: Routes) -> Message:
    match letter.WhichOneof("body"):
        case "report":
            return report_from_wire(letter.report, routes)
        case "feedback":
            return feedback_from_wire(letter.feedback)
        case "escalated_claims":
            contest = letter.escalated_claims
            return EscalatedClaims(contest.sender, _claims(contest.claims, routes), _flows(contest.withdrawn))
        case "share_update":
            verdict = letter.share_update
            flows = _flows(verdict.flow)
            share_bps, ceiling_bps = _columns(verdict, ("share_bps", "ceiling_bps"), len(flows))
            _check(share_bps=share_bps)
            _check(math.inf, ceiling_bps=ceiling_bps)
            return ShareUpdate(verdict.sender, tuple(map(Share, flows, share_bps, ceiling_bps)))
        case other:
            raise BadMessage("shape", f"found {other or 'nothing'} in an envelope, expected a message")


def _claims(wire: pb.Claims, routes: Routes) -> tuple[Claim, ...]:
    flows = _flows(wire.flow)
    if len(set(flows)) != len(flows):
        raise BadMessage("flow", "a flow is claimed twice")
    size_bytes, urgency, compute_ns, remaining_ns, sent_bytes, planned_bytes, upstream, downstream, slots = _columns(
        wire, _CLAIM_COLUMNS, len(flows)
    )
    plan_bps, promised_bytes = wire.plan_bps[:], wire.promised_bytes[:] or [0.0] * len(flows)
    _same_length("promised_bytes", len(flows), promised_bytes)
    _check(MOST_URGENT, -MOST_URGENT, urgency=urgency)
    _check(
        size_bytes=size_bytes,
        compute_ns=compute_ns,
        remaining_ns=remaining_ns,
        sent_bytes=sent_bytes,
        planned_bytes=planned_bytes,
        plan_bps=plan_bps,
        promised_bytes=promised_bytes,
    )
    columns = (
        flows,
        map(routes.path, flows),
        size_bytes,
        map(_bid, zip(urgency, compute_ns, remaining_ns, strict=True)),
        sent_bytes,
        planned_bytes,
        _rows(_flows(wire.upstream), upstream),
        _rows(_flows(wire.downstream), downstream),
        _rows(plan_bps, slots),
        promised_bytes,
    )
    return tuple(map(_claim, zip(*columns, strict=True)))


_CLAIM_COLUMNS = (
    "size_bytes",
    "urgency",
    "compute_ns",
    "remaining_ns",
    "sent_bytes",
    "planned_bytes",
    "upstream_count",
    "downstream_count",
    "plan_slots",
)
_GRANT_COLUMNS = ("accepted", "share_bps", "ceiling_bps", "alone_ns", "upstream_bytes", "downstream_bytes")

# As Claim(*row), without a call of Python's for each of a message's many.
_bid, _claim, _grant = (partial(tuple.__new__, kind) for kind in (Bid, Claim, Grant))


def _columns(wire: pb.Claims | pb.Feedback | pb.ShareUpdate, names: Sequence[str], count: int) -> list[list]:
    columns = [getattr(wire, name)[:] for name in names]  # a slice is copied at once, an iterator asked for each number
    for name, column in zip(names, columns, strict=True):
        _same_length(name, count, column)
    return columns


def _flows(texts: Sequence[str]) -> tuple[FlowId, ...]:
    return tuple(map(flow_of, texts[:]))


def _check(most: float = LARGEST, least: float = 0.0, **columns: Sequence[float]) -> None:
    """All from `least` to `most`, which NaN is not."""
    numbers = list(chain.from_iterable(columns.values()))
    # Where none is negative, none is above the sum; min may overlook a NaN, a sum does not.
    if numbers and not (min(numbers) >= 0.0 and sum(numbers) <= most):
        for name, column in columns.items():
            for number in column:
                if not least <= number <= most:
                    raise BadMessage("numbers", f"found {number} in {name}, expected {least:g} to {most:g}")


def _rows(values: Sequence, counts: Sequence[int]) -> Iterable[tuple]:
    """The values cut into one row per count."""
    if sum(counts) != len(values):
        raise BadMessage("shape", f"found {len(values)} values for {sum(counts)} places")
    if not values:
        return [()] * len(counts)
    values, ends = tuple(values), accumulate(counts)
    return [values[end - count : end] for end, count in zip(ends, counts, strict=True)]


def _same_length(name: str, count: int, column: Sequence[object]) -> None:
    if len(column) != count:
        raise BadMessage("shape", f"found {len(column)} entries in {name}, expected {count}")


def _slot(slot: int) -> int:
    if not -MAX_SLOT <= slot <= MAX_SLOT:
        raise BadMessage("numbers", f"found slot {slot}, expected one of this age")
    return slot
