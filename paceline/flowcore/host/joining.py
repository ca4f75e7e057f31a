"""What a host does about everything that happened at one time, in one go.

Law: of each flow only the last limit is set, and the switch gets one report, or as few as will do
(messages/coalescing.py). A switch that has heard of half of a job's flows gives them everything, and the rest wait.
"""

from collections.abc import Sequence

from paceline.flowcore.messages.coalescing import coalesce
from paceline.flowcore.messages.events import Effect, HostEvent, HostInput, Limit, Message, Send, Together
from paceline.flowcore.model.patterns import FlowId


def together(events: Sequence[HostEvent]) -> HostInput:
    """One event of these."""
    return events[0] if len(events) == 1 else Together(tuple(events))


def joined(effects: list[Effect]) -> list[Effect]:
    """What is left to be done of these."""
    if len(effects) < 2:
        return effects
    messages: dict[str, list[Message]] = {}
    limits: dict[FlowId, Limit] = {}
    for effect in effects:
        match effect:
            case Send(to, message):
                messages.setdefault(to, []).append(message)
            case Limit(flow):
                limits[flow] = effect
    sends = [Send(to, message) for to, waiting in messages.items() for message in coalesce(waiting)]
    return [*sends, *limits.values()]
