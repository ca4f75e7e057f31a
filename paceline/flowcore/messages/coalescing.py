"""Messages that wait together go together: to each peer one report and one answer, whatever flows they are about.

A message costs both ends the same however little it says. While a switch has little to do each leaves alone and at
once; the more there is, the more of them meet in the queue, and the less each costs.

Law: a coalesced message leaves the receiver in the state that its parts one after the other would. Of each flow the
last word counts. A coalesced message has the highest number of its parts, and answers the highest: messages between
two switches stay in order, so a switch that has read one has read all before it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from paceline.flowcore.messages.events import Message
from paceline.flowcore.messages.reports import NO_ANSWER, Feedback, Report
from paceline.flowcore.model.patterns import FlowId


def coalesce(messages: Iterable[Message]) -> list[Message]:
    """The messages to one peer as few as will do, in the order of the first of each kind."""
    bundles: list[_Bundle] = []
    open_for: dict[object, int] = {}
    for message in messages:
        kind, flows = _kind(message), _flows(message)
        at = open_for.get(kind)
        if (
            kind is None
            or at is None
            or _ends_a_claim_of(bundles[at].messages, message)
            or any(later.says_more_of(message, flows) for later in bundles[at + 1 :])
        ):
            at = open_for[kind] = len(bundles)
            bundles.append(_Bundle())
        bundles[at].messages.append(message)
        bundles[at].flows |= flows
    return [_coalesced(bundle.messages) for bundle in bundles]


@dataclass(slots=True)
class _Bundle:
    messages: list[Message] = field(default_factory=list)
    flows: set[FlowId] = field(default_factory=set)  # that they are about

    def says_more_of(self, message: Message, flows: set[FlowId]) -> bool:
        """The message's word on a flow would no longer be the last of its kind, were it put before this bundle."""
        return isinstance(self.messages[0], type(message)) and not flows.isdisjoint(self.flows)


def _flows(message: Message) -> set[FlowId]:
    match message:
        case Report():
            return {claim.flow for claim in message.claims} | {gone.flow for gone in message.withdrawn}
        case Feedback():
            return {grant.flow for grant in message.grants} | {*message.contended}
        case _:
            return set()


def _kind(message: Message) -> object:
    """Messages of the same kind can be coalesced. None: it is news by itself."""
    match message:
        case Report():
            return "report", message.first_slot
        case Feedback() if not message.contended:
            return "feedback", message.first_slot, message.answers == NO_ANSWER, message.silent
        case _:
            return None


def _ends_a_claim_of(bundle: Sequence[Message], message: Message) -> bool:
    """A report is read from what it withdraws to what it claims: the other way round it takes two."""
    if not isinstance(message, Report) or not message.withdrawn:
        return False
    claimed = {claim.flow for report in bundle if isinstance(report, Report) for claim in report.claims}
    return not claimed.isdisjoint(gone.flow for gone in message.withdrawn)


def _coalesced(bundle: Sequence[Message]) -> Message:
    last = bundle[-1]
    if len(bundle) == 1:
        return last
    if isinstance(last, Feedback):
        answers = [one for one in bundle if isinstance(one, Feedback)]
        grants = {grant.flow: grant for answer in answers for grant in answer.grants}
        return replace(last, answers=max(answer.answers for answer in answers), grants=tuple(grants.values()))
    assert isinstance(last, Report)
    reports = [one for one in bundle if isinstance(one, Report)]
    claims = {claim.flow: claim for report in reports for claim in report.claims}
    withdrawn = {gone.flow: gone for report in reports for gone in report.withdrawn}
    number = max(report.number for report in reports)
    return replace(last, number=number, claims=tuple(claims.values()), withdrawn=tuple(withdrawn.values()))
