"""What waits for one neighbour, in frames that it will take.

Our own letters to the same switch go joined, others' as they came. A frame is not much larger than FRAME_BYTES: what is
too much for one is halved, first among the letters, then a letter among its flows. All receivers act on each flow for
itself, so a letter in parts, in order, says what it says whole.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from paceline.flowcore.messages.coalescing import joined
from paceline.flowcore.messages.escalation import EscalatedClaims, ShareUpdate
from paceline.flowcore.messages.events import Message, Send
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.service.log_rate_limit import LogRateLimit
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import MAX_MESSAGE_BYTES
from paceline.wire.codec import message_to_envelope

_log = logging.getLogger(__name__)
_log_limit = LogRateLimit()
Many = TypeVar("Many", bound=Sequence)

# To another switch: our own, or one that passes through.
Letter = Send | pb.Envelope

# The answer to a letter of claims without plans is up to three times as long, and must be below MAX_MESSAGE_BYTES.
FRAME_BYTES = 256 * 1024


def frames(name: str, letters: Sequence[Letter], serialized: Callable[[list[pb.Envelope]], bytes]) -> Iterator[bytes]:
    """`serialized` makes a frame; it is asked for one when the one before has been taken."""
    frame = serialized(_envelopes(name, letters))
    parts = _halves(letters) if len(frame) > FRAME_BYTES else []
    if parts:
        for part in parts:
            yield from frames(name, part, serialized)
    elif len(frame) <= MAX_MESSAGE_BYTES:
        yield frame
    else:  # one claim with a host's whole megabyte of upstream; the receiver would hang up on us
        _log_limit.log(_log, logging.WARNING, "size", "a letter of %d bytes is left out", len(frame))


def _envelopes(name: str, letters: Sequence[Letter]) -> list[pb.Envelope]:
    relayed = [letter for letter in letters if isinstance(letter, pb.Envelope)]
    own: dict[str, list[Message]] = {}
    for letter in letters:
        if isinstance(letter, Send):
            own.setdefault(letter.to, []).append(letter.message)
    return relayed + [message_to_envelope(name, to, one) for to, messages in own.items() for one in joined(messages)]


def _halves(letters: Sequence[Letter]) -> list[list[Letter]]:
    """Empty if it cannot be halved: a letter that passes through was in a frame before."""
    if len(letters) > 1:
        return [list(half) for half in _split(letters)]
    [letter] = letters
    if isinstance(letter, pb.Envelope):
        return []
    return [[Send(letter.to, part)] for part in _parts(letter.message)]


def _parts(message: Message) -> list[Message]:
    match message:
        case Report() | EscalatedClaims() if message.withdrawn and message.claims:
            return [replace(message, claims=()), replace(message, withdrawn=())]
        case Report() | EscalatedClaims() if message.withdrawn:
            return [replace(message, withdrawn=half) for half in _split(message.withdrawn)]
        case Report() | EscalatedClaims():
            return [replace(message, claims=half) for half in _split(message.claims)]
        case Feedback():
            return [replace(message, grants=half) for half in _split(message.grants)]
        case ShareUpdate():
            return [replace(message, shares=half) for half in _split(message.shares)]


def _split(many: Many) -> list[Many]:
    middle = len(many) // 2
    return [many[:middle], many[middle:]] if middle else []
