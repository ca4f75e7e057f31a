"""flowcore's messages to protobuf and back: nothing beyond this module and its callers' streams sees protobuf.

Law: from_wire(to_wire(message)) == message, and whatever a peer sends either is a valid message or raises BadMessage.
A message may come from anywhere, so lengths and numbers are checked before anything is built.

A field is added in one place: its line in the table of its row or message below, beside the field itself in
proto/ and in flowcore's dataclass. How each kind of column travels is in columns.py.
"""

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Protocol, TypeVar, cast

from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import Message
from paceline.flowcore.messages.reports import NO_ANSWER, Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.background import MOST_STOOD_FOR
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.weights import LEAST, MOST
from paceline.wire import control_pb2 as pb
from paceline.wire.columns import (
    LARGEST,
    CountedFlows,
    CountedNumbers,
    Flags,
    FlowColumn,
    Group,
    Numbers,
    PathColumn,
    PerSlot,
    Rows,
    Wire,
    flows_of,
)
from paceline.wire.flow_names import BadMessage, BadRows, FlowPaths, flow_of, text_of

__all__ = [
    "FEEDBACK",
    "LARGEST",
    "MAX_ALONE_NS",
    "MAX_NUMBER",
    "MAX_SLOT",
    "MOST_URGENT",
    "REPORT",
    "BadMessage",
    "BadRows",
    "FlowPaths",
    "flow_of",
    "message_from_envelope",
    "message_to_envelope",
    "sift_envelope",
    "text_of",
]

# Urgency is on the policy's own scale; fifo's is minus the time since 1970.
MOST_URGENT = 1e19

MAX_SLOT = 2**62
MAX_NUMBER = 2**63 - 1  # of a report: the answer names it in a signed field
MAX_ALONE_NS = 10**18  # a host may claim to have exabytes to send

# ---- Kinds of fields of a message ----


class MessageField(Protocol):
    def write(self, name: str, value: Any, wire_fields: dict[str, Any]) -> None:
        """Adds what protobuf needs to `wire_fields`."""

    def read(self, name: str, wire: Wire, paths: FlowPaths | None) -> Any: ...


class Text:
    def write(self, name: str, value: str, wire_fields: dict[str, Any]) -> None:
        wire_fields[name] = value

    def read(self, name: str, wire: Wire, paths: FlowPaths | None) -> str:
        return cast(str, getattr(wire, name))


class Texts:
    def write(self, name: str, value: Sequence[str], wire_fields: dict[str, Any]) -> None:
        wire_fields[name] = value

    def read(self, name: str, wire: Wire, paths: FlowPaths | None) -> tuple[str, ...]:
        return tuple(getattr(wire, name))


@dataclass(frozen=True, slots=True)
class Integer:
    least: int
    most: int

    def write(self, name: str, value: int, wire_fields: dict[str, Any]) -> None:
        wire_fields[name] = value

    def read(self, name: str, wire: Wire, paths: FlowPaths | None) -> int:
        value: int = getattr(wire, name)
        if not self.least <= value <= self.most:
            raise BadMessage("numbers", f"found {name} {value}, expected {self.least} to {self.most}")
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """0 where it is missing; older peers do not send it."""

    least: float
    most: float

    def write(self, name: str, value: float, wire_fields: dict[str, Any]) -> None:
        if value:
            wire_fields[name] = value

    def read(self, name: str, wire: Wire, paths: FlowPaths | None) -> float:
        value: float = getattr(wire, name)
        if not self.least <= value <= self.most:  # which NaN is not
            raise BadMessage("numbers", f"found {name} {value}, expected {self.least:g} to {self.most:g}")
        return value


class FlowNames:
    def write(self, name: str, value: Sequence[FlowId], wire_fields: dict[str, Any]) -> None:
        wire_fields[name] = map(text_of, value)

    def read(self, name: str, wire: Wire, paths: FlowPaths | None) -> tuple[FlowId, ...]:
        return flows_of(getattr(wire, name))


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows as columns: fields of the message itself or, if nested, of the message inside it."""

    rows: Rows[Any]
    nested: bool = False

    def write(self, name: str, value: Sequence[Any], wire_fields: dict[str, Any]) -> None:
        # A dictionary for what is nested: protobuf would copy a message of its own type.
        self.rows.write(value, wire_fields.setdefault(name, {}) if self.nested else wire_fields)

    def read(self, name: str, wire: Wire, paths: FlowPaths | None) -> tuple[Any, ...]:
        return self.rows.read(getattr(wire, name) if self.nested else wire, paths)

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        self.rows.drop(getattr(wire, name) if self.nested else wire, rows)


M = TypeVar("M", bound=Message)
W = TypeVar("W")


class MessageTable(Generic[M, W]):
    """How each field of a message travels, by its name."""

    def __init__(self, message: type[M], wire: Callable[..., W], **kinds: MessageField) -> None:
        names = [field.name for field in fields(message)]
        if set(kinds) != set(names):
            raise TypeError(f"{message.__name__}: fields {sorted(kinds)}, expected {sorted(names)}")
        self.message: Callable[..., M] = message
        self._wire, self._fields = wire, [(name, kinds[name]) for name in names]

    def to_wire(self, message: M) -> W:
        return self._wire(**self.wire_fields(message))

    def wire_fields(self, message: M) -> dict[str, Any]:
        """What protobuf needs to make the message."""
        found: dict[str, Any] = {}
        for name, kind in self._fields:
            kind.write(name, getattr(message, name), found)
        return found

    def from_wire(self, wire: W, paths: FlowPaths | None = None) -> M:
        """`paths` for messages with claims, which travel without theirs."""
        return self.message(*[kind.read(name, wire, paths) for name, kind in self._fields])

    def sift(self, wire: W, paths: FlowPaths | None = None) -> tuple[M, list[BadRows]]:
        """The message without its bad rows, which are taken out of `wire`, and what was bad about them; raises
        BadMessage where not rows alone are bad."""
        values, bad = [], []
        for name, kind in self._fields:
            while True:
                try:
                    values.append(kind.read(name, wire, paths))
                    break
                except BadRows as error:
                    if not error.rows or not isinstance(kind, Columns):
                        raise
                    bad.append(error)
                    kind.drop(name, wire, error.rows)
        return self.message(*values), bad


# ---- The tables ----

BID = Group(
    Bid,
    {
        "urgency": Numbers(-MOST_URGENT, MOST_URGENT),
        "compute_ns": Numbers(),
        "remaining_ns": Numbers(),
    },
)
CLAIMS = Rows(
    Claim,
    distinct=True,
    flow=FlowColumn(),
    path=PathColumn(),
    size_bytes=Numbers(),
    bid=BID,
    sent_bytes=Numbers(),
    planned_bytes=Numbers(),
    upstream=CountedFlows("upstream_count"),
    downstream=CountedFlows("downstream_count"),
    plan_bps=CountedNumbers("plan_slots"),
    promised_bytes=Numbers(default=0.0),
    weight=Numbers(LEAST, MOST, default=1.0),
    weighable=Flags(default=False),
    unstoppable=Flags(default=False),
)
WITHDRAWALS = Rows(
    Withdrawal,
    flow=FlowColumn("withdrawn"),
    volume_bytes=Numbers(clipped=True, column="withdrawn_bytes"),
    left=Flags(default=False),
)
STANDS_FOR = Numbers(1.0, MOST_STOOD_FOR, default=1.0)
GRANTS = Rows(
    Grant,
    flow=FlowColumn(),
    accepted=Flags(),
    share_bps=Numbers(),
    ceiling_bps=Numbers(most=math.inf),
    available_bps=PerSlot(like="load", most=math.inf),
    load=PerSlot(like="load"),
    alone_ns=Numbers(most=MAX_ALONE_NS, clipped=True),
    upstream_bytes=Numbers(most=math.inf),
    downstream_bytes=Numbers(most=math.inf),
    stands_for=STANDS_FOR,
    uncontended=Flags(default=False),
)
SHARES = Rows(Share, flow=FlowColumn(), share_bps=Numbers(), ceiling_bps=Numbers(most=math.inf), stands_for=STANDS_FOR)

SLOT = Integer(-MAX_SLOT, MAX_SLOT)
REPORT = MessageTable(
    Report,
    pb.Report,
    sender=Text(),
    number=Integer(0, MAX_NUMBER),
    first_slot=SLOT,
    claims=Columns(CLAIMS, nested=True),
    withdrawn=Columns(WITHDRAWALS),
    others_bps=Number(0.0, LARGEST),
)
FEEDBACK = MessageTable(
    Feedback,
    pb.Feedback,
    sender=Text(),
    answers=Integer(NO_ANSWER, MAX_NUMBER),
    first_slot=SLOT,
    grants=Columns(GRANTS),
    silent=Texts(),
    contended=FlowNames(),
)
ESCALATED_CLAIMS = MessageTable(
    EscalatedClaims,
    pb.EscalatedClaims,
    sender=Text(),
    claims=Columns(CLAIMS, nested=True),
    withdrawn=FlowNames(),
)
SHARE_UPDATE = MessageTable(ShareUpdate, pb.ShareUpdate, sender=Text(), shares=Columns(SHARES))

# By the name of the envelope's field.
BODIES: dict[str, MessageTable[Any, Any]] = {
    "report": REPORT,
    "feedback": FEEDBACK,
    "escalated_claims": ESCALATED_CLAIMS,
    "share_update": SHARE_UPDATE,
}
BODY_OF = {table.message: body for body, table in BODIES.items()}

# ---- Between switches ----


def message_to_envelope(source: str, to: str, message: Message) -> pb.Envelope:
    body = BODY_OF[type(message)]
    inner: dict[str, Any] = {body: BODIES[body].wire_fields(message)}
    return pb.Envelope(source=source, to=to, **inner)


def message_from_envelope(envelope: pb.Envelope, paths: FlowPaths) -> Message:
    body, table = _body_of(envelope)
    return cast(Message, table.from_wire(getattr(envelope, body), paths))


def sift_envelope(envelope: pb.Envelope, paths: FlowPaths) -> tuple[Message, list[BadRows]]:
    """As `MessageTable.sift`."""
    body, table = _body_of(envelope)
    return cast(tuple[Message, list[BadRows]], table.sift(getattr(envelope, body), paths))


def _body_of(envelope: pb.Envelope) -> tuple[str, MessageTable[Any, Any]]:
    body = envelope.WhichOneof("body")
    table = BODIES.get(body or "")
    if body is None or table is None:
        raise BadMessage("shape", f"found {body or 'nothing'} in an envelope, expected a message")
    return body, table
