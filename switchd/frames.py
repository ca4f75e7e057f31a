"""The messages that wait for one neighbour, in frames that the neighbour accepts.

This switch's own messages to the same switch are coalesced; those of other switches are relayed as they came. A frame
is not much larger than FRAME_BYTES: what is too much for one is halved, first the list of messages, then a message by
its flows. Receivers act on each flow for itself, so a message in parts, in order, says the same as the whole.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from paceline.flowcore.messages.coalescing import coalesce
from paceline.flowcore.messages.escalation import EscalatedClaims, ShareUpdate
from paceline.flowcore.messages.events import Message, Send
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.service.log_rate_limit import LogRateLimit
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import MAX_MESSAGE_BYTES
from paceline.wire.codec import message_to_envelope

_log = logging.getLogger(__name__)
_log_limit = LogRateLimit()
T = TypeVar("T")

# To another switch: a message of this switch, or an envelope that it relays.
Outgoing = Send | pb.Envelope

# The answer to a message of claims without plans is up to three times as long, and must be below MAX_MESSAGE_BYTES.
FRAME_BYTES = 256 * 1024


def frames(name: str, outgoing: Sequence[Outgoing], frame_of: Callable[[list[pb.Envelope]], bytes]) -> Iterator[bytes]:
    """`frame_of` serializes envelopes as a frame; it is called when the frame before has been taken."""
    frame = frame_of(_envelopes(name, outgoing))
    parts = _halves(outgoing) if len(frame) > FRAME_BYTES else []
    if parts:
        for part in parts:
            yield from frames(name, part, frame_of)
    elif len(frame) <= MAX_MESSAGE_BYTES:
        yield frame
    else:  # one claim with a host's whole megabyte of upstream; the receiver would end the stream
        _log_limit.log(_log, logging.WARNING, "size", "a message of %d bytes is too large and was dropped", len(frame))


def _envelopes(name: str, outgoing: Sequence[Outgoing]) -> list[pb.Envelope]:
    relayed = [item for item in outgoing if isinstance(item, pb.Envelope)]
    own: dict[str, list[Message]] = {}
    for item in outgoing:
        if isinstance(item, Send):
            own.setdefault(item.to, []).append(item.message)
    return relayed + [message_to_envelope(name, to, one) for to, messages in own.items() for one in coalesce(messages)]


def _halves(outgoing: Sequence[Outgoing]) -> list[list[Outgoing]]:
    """Empty if it cannot be halved: a relayed envelope was in a frame before."""
    if len(outgoing) > 1:
        return [list(half) for half in _split(outgoing)]
    [item] = outgoing
    if isinstance(item, pb.Envelope):
        return []
    return [[Send(item.to, part)] for part in _parts(item.message)]


def _parts(message: Message) -> list[Message]:
    match message:
        case Report(claims=[_, *_], withdrawn=[_, *_]):
            return [replace(message, claims=()), replace(message, withdrawn=())]
        case EscalatedClaims(claims=[_, *_], withdrawn=[_, *_]):
            return [replace(message, claims=()), replace(message, withdrawn=())]
        case Report(claims=()):
            return [replace(message, withdrawn=half) for half in _split(message.withdrawn)]
        case EscalatedClaims(claims=()):
            return [replace(message, withdrawn=half) for half in _split(message.withdrawn)]
        case Report() | EscalatedClaims():
            return [replace(message, claims=half) for half in _split(message.claims)]
        case Feedback():
            return [replace(message, grants=half) for half in _split(message.grants)]
        case ShareUpdate():
            return [replace(message, shares=half) for half in _split(message.shares)]


def _split(rows: Sequence[T]) -> list[tuple[T, ...]]:
    middle = len(rows) // 2
    return [tuple(rows[:middle]), tuple(rows[middle:])] if middle else []
