"""Messages that wait together: coalesced, they leave a switch in the state that one after the other would."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.messages.coalescing import coalesce
from paceline.flowcore.messages.escalation import Share, ShareUpdate
from paceline.flowcore.messages.events import Effect, Message, Send
from paceline.flowcore.messages.reports import NO_ANSWER, Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import clos
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent

SLOT_NS = 60_000_000
CLOCK = SlotClock(SLOT_NS, 4)
CLOS = clos(3, 2, 1, (1.0, 2.0))
Kind = TypeVar("Kind", Report, Feedback)
FLOWS = [FlowId(f"job{number}", f"h{number % 3}", f"h{3 + number % 2}", Role.RING) for number in range(5)]


def claim(flow: FlowId, rate_bps: float) -> Claim:
    path = CLOS.path(flow.source, flow.target, str(flow))
    return Claim(flow, path, 25e6, Bid(1.0), rate_bps / 8, 0.0, (), (), (rate_bps,) * 4)


def grant(flow: FlowId, load: float) -> Grant:
    return Grant(flow, True, 0.0, 0.0, (1e9,) * 4, (load,) * 4, 1, 0.0, 0.0)


# A host says of some flows how fast they are, and of some that they are through.
words = st.lists(st.dictionaries(st.sampled_from(FLOWS), st.floats(0.0, 1e8) | st.none(), min_size=1), max_size=8)


def report(number: int, said: dict[FlowId, float | None]) -> Report:
    claims = tuple(claim(flow, rate_bps) for flow, rate_bps in said.items() if rate_bps is not None)
    gone = tuple(Withdrawal(flow, 25e6) for flow, rate_bps in said.items() if rate_bps is None)
    return Report("tor0", number, 0, claims, gone)


def sent(effects: Iterable[Effect], kind: type[Kind]) -> list[tuple[str, Kind]]:
    """With the peer it goes to."""
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [(send.to, send.message) for send in sends if isinstance(send.message, kind)]


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from(FLOWS[:2]), st.booleans()), max_size=8))
def test_of_each_flow_the_last_word_stays_the_last(said: list[tuple[int, FlowId, bool]]) -> None:
    """Whichever slots the reports are of: a host may claim for a slot what it gave up in the one after."""
    messages: list[Message] = [
        replace(report(number, {flow: 1e6 if claims else None}), first_slot=slot)
        for number, (slot, flow, claims) in enumerate(said, 1)
    ]
    heard: dict[FlowId, bool] = {}
    for one in coalesce(messages):
        assert isinstance(one, Report)
        heard |= {gone.flow: False for gone in one.withdrawn} | {claim.flow: True for claim in one.claims}
    assert heard == {flow: claims for _, flow, claims in said}


@given(words)
def test_the_spine_ends_up_the_same(said: list[dict[FlowId, float | None]]) -> None:
    messages: list[Message] = [report(number, word) for number, word in enumerate(said, 1)]
    states, answered = [], []
    for way in (messages, coalesce(messages)):
        spine = SwitchAgent("spine0", domains(CLOS)["spine0"], CLOCK, POLICIES["mlcc"]())
        heard: dict[FlowId, Grant] = {}
        last = 0
        for one in way:
            for _, answer in sent(spine.handle(one, 1), Feedback):
                heard |= {grant.flow: grant for grant in answer.grants}
                last = answer.answers
        load_bps = {link: round(spine.table.load_bps(link, 0)) for link in spine.table.capacity_bps}
        known = {flow for flow in FLOWS if flow in spine.table}
        states.append((load_bps, known, {flow: heard[flow].accepted for flow in known}))
        answered.append(last)
    assert states[0] == states[1]
    assert answered[0] <= answered[1] <= len(messages)


def test_reports_and_answers_become_one_each() -> None:
    first, second, third = FLOWS[:3]
    messages: list[Message] = [
        Report("tor0", 1, 7, (claim(first, 1e6), claim(second, 1e6))),
        Feedback("tor0", 3, 7, (grant(first, 0.1),)),
        Report("tor0", 2, 7, (claim(first, 2e6),), (Withdrawal(third, 1.0),)),
        Feedback("tor0", 5, 7, (grant(second, 0.2),)),
    ]
    assert coalesce(messages) == [
        Report("tor0", 2, 7, (claim(first, 2e6), claim(second, 1e6)), (Withdrawal(third, 1.0),)),
        Feedback("tor0", 5, 7, (grant(first, 0.1), grant(second, 0.2))),
    ]


def test_the_highest_number_counts_whatever_came_last() -> None:
    """Messages about two slots in one frame are answered out of order."""
    first, second = FLOWS[:2]
    earlier, later = Feedback("tor0", 7, 1, (grant(first, 0.1),)), Feedback("tor0", 6, 1, (grant(second, 0.2),))
    assert coalesce([earlier, later]) == [Feedback("tor0", 7, 1, (grant(first, 0.1), grant(second, 0.2)))]


def test_what_cannot_be_joined() -> None:
    flow = FLOWS[0]
    share = ShareUpdate("spine0", (Share(flow, 1e6, 1e6),))
    messages: list[Message] = [
        Report("tor0", 1, 7, (claim(flow, 1e6),)),
        Report("tor0", 2, 7, (), (Withdrawal(flow, 1.0),)),  # read from the end it would still be claimed
        Report("tor0", 3, 8, (claim(flow, 1e6),)),  # plans of other slots
        Feedback("tor0", 5, 7, (grant(flow, 0.1),)),
        Feedback("tor0", NO_ANSWER, 7, (grant(flow, 0.1),)),  # answers nothing
        Feedback("tor0", 6, 7, (grant(flow, 0.1),), silent=("spine1",)),
        share,
        share,
    ]
    assert coalesce(messages) == messages
    assert coalesce([]) == []


def test_an_answer_to_an_older_report_is_none_to_the_newer() -> None:
    """And one to a later message of the same switch is: messages may have been coalesced."""
    tor = SwitchAgent("tor0", domains(CLOS)["tor0"], CLOCK, POLICIES["mlcc"]())
    flow = FLOWS[0]
    asked = []
    for number in (1, 2):
        effects = tor.handle(Report("h0", number, 0, (claim(flow, 1e6),)), number)
        asked.append({to: report.number for to, report in sent(effects, Report)})
    assert asked[0].keys() == {"spine0", "tor1"}
    answers = []
    for answered in (asked[0], {switch: number + 5 for switch, number in asked[1].items()}):
        for switch, number in answered.items():
            effects = tor.handle(Feedback(switch, number, 0, (grant(flow, 0.1),)), 3)
            answers.append([answer.answers for _, answer in sent(effects, Feedback)])
    assert answers == [[], [], [], [2]]
