"""The codec's law: what goes out comes in the same, and whatever else comes in is a BadMessage."""

import math
from collections.abc import Callable
from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import Message
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import clos, tree
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import (
    FEEDBACK,
    LARGEST,
    MAX_ALONE_NS,
    MAX_NUMBER,
    MAX_SLOT,
    REPORT,
    BadMessage,
    FlowPaths,
    flow_of,
    message_from_envelope,
    message_to_envelope,
    text_of,
)

TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))
PATHS = FlowPaths(TREE)
HORIZON = 4

# ---- Anything that may be said ----

jobs = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
hosts = st.sampled_from(TREE.hosts)
roles = st.sampled_from(Role)
flows = st.builds(FlowId, jobs, hosts, hosts, roles).filter(lambda flow: not flow.local)
anything = st.builds(FlowId, jobs, hosts, hosts, roles)
numbers = st.floats(0.0, LARGEST)
perhaps_infinite = numbers | st.just(math.inf)
slots = st.integers(-MAX_SLOT, MAX_SLOT)
names = st.text(max_size=30)
columns = st.lists(numbers, min_size=HORIZON, max_size=HORIZON).map(tuple)
bids = st.builds(Bid, st.floats(-1e19, 1e19), numbers, numbers)


@st.composite
def claims(draw: st.DrawFn) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            flow,
            TREE.path(flow.source, flow.target, str(flow)),
            draw(numbers),
            draw(bids),
            draw(numbers),
            draw(numbers),
            tuple(draw(st.lists(anything, max_size=3))),
            tuple(draw(st.lists(anything, max_size=3))),
            tuple(draw(st.lists(numbers, max_size=HORIZON))),
            draw(numbers),
            draw(st.floats(0.1, 10.0)),
            draw(st.booleans()),
        )
        for flow in draw(st.lists(flows, max_size=4, unique=True))
    )


grants = st.builds(
    Grant,
    anything,
    st.booleans(),
    numbers,
    perhaps_infinite,
    columns,
    columns,
    st.integers(0, MAX_ALONE_NS),
    perhaps_infinite,
    perhaps_infinite,
    st.floats(1.0, 64.0),
)
withdrawals = st.lists(st.builds(Withdrawal, anything, numbers), max_size=3).map(tuple)
reports = st.builds(Report, names, st.integers(0, MAX_NUMBER), slots, claims(), withdrawals, numbers)
feedbacks = st.builds(
    Feedback,
    names,
    st.integers(-1, MAX_NUMBER),
    slots,
    st.lists(grants, max_size=3).map(tuple),
    st.lists(names, max_size=2).map(tuple),
)
escalations = st.builds(EscalatedClaims, names, claims(), st.lists(anything, max_size=3).map(tuple))
shares = st.lists(st.builds(Share, anything, numbers, perhaps_infinite, st.floats(1.0, 64.0)), max_size=3).map(tuple)
share_updates = st.builds(ShareUpdate, names, shares)


@given(reports | feedbacks | escalations | share_updates)
def test_what_is_sent_arrives(message: Message) -> None:
    data = message_to_envelope("tor0", "agg", message).SerializeToString()
    wire = pb.Envelope.FromString(data)
    assert (wire.source, wire.to) == ("tor0", "agg")
    assert message_from_envelope(wire, PATHS) == message


@given(reports, feedbacks)
def test_the_hosts_two_messages(report: Report, feedback: Feedback) -> None:
    assert REPORT.from_wire(pb.Report.FromString(REPORT.to_wire(report).SerializeToString()), PATHS) == report
    assert FEEDBACK.from_wire(pb.Feedback.FromString(FEEDBACK.to_wire(feedback).SerializeToString())) == feedback


@given(anything)
@example(FlowId("a/b>c/ring", "h0", "h1", Role.RING))
def test_a_flow_is_its_text(flow: FlowId) -> None:
    assert flow_of(text_of(flow)) == flow


def test_both_ends_find_the_same_path() -> None:
    topology = clos(2, 2, 2, (1.0, 1.0))
    paths = FlowPaths(topology)
    for number in range(8):
        flow = FlowId(f"job{number}", "h0", "h2", Role.PUSH)
        assert paths.path(flow) == topology.path("h0", "h2", str(flow))


def test_an_exchange_that_would_take_ages_takes_30_years() -> None:
    grant = Grant(FlowId("a", "h0", "h1", Role.RING), True, 0.0, 0.0, (1.0,), (0.0,), 10**25, 0.0, 0.0)
    wire = FEEDBACK.to_wire(Feedback("sw", 1, 0, (grant,)))
    assert FEEDBACK.from_wire(wire).grants[0].alone_ns == MAX_ALONE_NS


# ---- Whatever else comes in ----

A, B = "a/ring/h0>h1", "b/push/h0>h7"


def good_report() -> pb.Report:
    flow = FlowId("a", "h0", "h1", Role.RING)
    other = FlowId("b", "h0", "h7", Role.PUSH)
    claimed = tuple(
        Claim(
            *(one, PATHS.path(one), 1e6, Bid(1.0, 2.0, 3.0), 4.0, 5.0, (flow,), (other,), (1e8, 2e8)),
            *(6.0, 2.0, True, True),
        )
        for one in (flow, other)
    )
    return REPORT.to_wire(Report("h0", 7, 100, claimed, (Withdrawal(flow, 9.0),)))


def good_feedback() -> pb.Feedback:
    grant = Grant(flow_of(A), True, 1.0, 2.0, (3.0,) * HORIZON, (0.5,) * HORIZON, 6, math.inf, 8.0, 3.0)
    return FEEDBACK.to_wire(Feedback("sw", 7, 100, (grant,)))


def spoiled(message: pb.Report | pb.Feedback, spoil: Callable[[pb.Report | pb.Feedback], object]) -> bytes:
    spoil(message)
    return message.SerializeToString()


BAD_TEXTS = [
    "",
    "a",
    "a/ring",
    "ring/h0>h1",
    "/ring/h0>h1",
    "a/ring/h0",
    "a/ring/>h1",
    "a/ring/h0>",
    "a/sing/h0>h1",
    "a//h0>h1",
    "a\n/ring/h0>h1",
    "a\x1b[31m/ring/h0>h1",
    "a" * 300 + "/ring/h0>h1",
]
BAD_PATHS = ["a/ring/h0>h99", "a/ring/x>h1", "a/ring/h0>h0", "a/ring/tor0>h1"]
DOUBLES = [
    *("size_bytes", "urgency", "compute_ns", "remaining_ns", "sent_bytes", "planned_bytes", "promised_bytes"),
    *("weight", "plan_bps"),
]
CLAIM_COLUMNS = [*DOUBLES[:-1], "upstream_count", "downstream_count", "plan_slots", "weighable", "unstoppable"]
GRANT_COLUMNS = ["accepted", "share_bps", "ceiling_bps", "alone_ns", "upstream_bytes", "downstream_bytes"]


def refused(spoil: Callable[[pb.Report], object]) -> str:
    with pytest.raises(BadMessage) as error:
        REPORT.from_wire(pb.Report.FromString(spoiled(good_report(), spoil)), PATHS)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500
    return error.value.reason


def refused_feedback(spoil: Callable[[pb.Feedback], object]) -> str:
    with pytest.raises(BadMessage) as error:
        FEEDBACK.from_wire(pb.Feedback.FromString(spoiled(good_feedback(), spoil)))
    return error.value.reason


@pytest.mark.parametrize("text", BAD_TEXTS + BAD_PATHS)
def test_no_flow_of_ours(text: str) -> None:
    assert refused(lambda report: report.claims.flow.__setitem__(0, text)) == "flow"


@pytest.mark.parametrize("text", BAD_TEXTS)
@pytest.mark.parametrize("column", ["upstream", "downstream"])
def test_no_dependency_of_ours(text: str, column: str) -> None:
    assert refused(lambda report: getattr(report.claims, column).__setitem__(0, text)) == "flow"


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_no_withdrawal_of_ours(text: str) -> None:
    assert refused(lambda report: report.withdrawn.__setitem__(0, text)) == "flow"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1.0, -1e-300, 1e300])
@pytest.mark.parametrize("column", DOUBLES)
def test_numbers_without_sense(column: str, number: float) -> None:
    if column == "urgency" and abs(number) <= 1.0:
        number = -1e300  # a small negative urgency is a policy's own affair
    assert refused(lambda report: getattr(report.claims, column).__setitem__(1, number)) == "numbers"


@pytest.mark.parametrize("column", CLAIM_COLUMNS)
def test_columns_of_another_length(column: str) -> None:
    assert refused(lambda report: getattr(report.claims, column).append(1)) == "shape"
    assert refused(lambda report: getattr(report.claims, column).pop()) == "shape"


def test_a_host_that_does_not_look_at_cross_traffic_has_none() -> None:
    old = REPORT.to_wire(Report("h0", 1, 0, ()))
    assert b"others" not in str(old).encode() and REPORT.from_wire(old, PATHS).others_bps == 0.0


@pytest.mark.parametrize("others_bps", [-1.0, math.nan, math.inf, 2 * LARGEST])
def test_cross_traffic_without_sense(others_bps: float) -> None:
    wire = REPORT.to_wire(Report("h0", 1, 0, ()))
    wire.others_bps = others_bps
    with pytest.raises(BadMessage, match="others_bps") as refused:
        REPORT.from_wire(wire, PATHS)
    assert refused.value.reason == "numbers"


def test_a_host_that_counts_no_promises_and_knows_no_weights_is_understood() -> None:
    wire = good_report()
    wire.claims.ClearField("promised_bytes")
    wire.claims.ClearField("weight")
    wire.claims.ClearField("weighable")
    wire.claims.ClearField("unstoppable")
    report = REPORT.from_wire(pb.Report.FromString(wire.SerializeToString()), PATHS)
    assert [(claim.promised_bytes, *claim[-3:]) for claim in report.claims] == [(0.0, 1.0, False, False)] * 2


@pytest.mark.parametrize("weight", [0.0, 0.09, 10.1])
def test_a_weight_beyond_all_limits(weight: float) -> None:
    assert refused(lambda report: report.claims.weight.__setitem__(1, weight)) == "numbers"


@pytest.mark.parametrize("counts", ["upstream_count", "downstream_count", "plan_slots"])
def test_counts_that_do_not_add_up(counts: str) -> None:
    assert refused(lambda report: getattr(report.claims, counts).__setitem__(0, 2**32 - 1)) == "shape"
    assert refused(lambda report: getattr(report.claims, counts).__setitem__(0, 0)) == "shape"


def test_other_shapes_of_a_bad_report() -> None:
    assert refused(lambda report: report.claims.flow.__setitem__(0, report.claims.flow[1])) == "flow"
    assert refused(lambda report: report.claims.flow.append(A)) == "flow"
    assert refused(lambda report: report.withdrawn_bytes.append(1.0)) == "shape"
    assert refused(lambda report: report.withdrawn_bytes.__setitem__(0, math.nan)) == "numbers"
    assert refused(lambda report: setattr(report, "first_slot", -(2**63))) == "numbers"
    assert refused(lambda report: setattr(report, "number", 2**64 - 1)) == "numbers"


@pytest.mark.parametrize("column", GRANT_COLUMNS)
def test_grants_of_another_length(column: str) -> None:
    assert refused_feedback(lambda feedback: getattr(feedback, column).append(1)) == "shape"
    assert refused_feedback(lambda feedback: getattr(feedback, column).pop()) == "shape"


@pytest.mark.parametrize(
    "column", ["share_bps", "ceiling_bps", "available_bps", "load", "upstream_bytes", "downstream_bytes"]
)
@pytest.mark.parametrize("number", [math.nan, -1.0])
def test_grants_without_sense(column: str, number: float) -> None:
    assert refused_feedback(lambda feedback: getattr(feedback, column).__setitem__(0, number)) == "numbers"


def test_other_shapes_of_bad_feedback() -> None:
    assert refused_feedback(lambda feedback: feedback.load.pop()) == "shape"
    assert refused_feedback(lambda feedback: feedback.available_bps.append(1.0)) == "shape"
    assert refused_feedback(lambda feedback: feedback.ClearField("load")) == "shape"
    assert refused_feedback(lambda feedback: feedback.alone_ns.__setitem__(0, -1)) == "numbers"
    assert refused_feedback(lambda feedback: setattr(feedback, "answers", -2)) == "numbers"
    assert refused_feedback(lambda feedback: setattr(feedback, "first_slot", 2**63 - 1)) == "numbers"
    assert refused_feedback(lambda feedback: feedback.flow.__setitem__(0, "nonsense")) == "flow"


@pytest.mark.parametrize(
    "wire",
    [
        pb.Envelope(source="tor0", to="agg"),
        pb.Envelope(source="tor0", to="agg", unreachable=True),
        pb.Envelope(share_update=pb.ShareUpdate(sender="agg", flow=[A], share_bps=[1.0], ceiling_bps=[])),
        pb.Envelope(share_update=pb.ShareUpdate(sender="agg", flow=[A], share_bps=[], ceiling_bps=[1.0])),
        pb.Envelope(share_update=pb.ShareUpdate(sender="agg", flow=[A], share_bps=[math.nan], ceiling_bps=[1.0])),
        pb.Envelope(share_update=pb.ShareUpdate(sender="agg", flow=["a"], share_bps=[1.0], ceiling_bps=[1.0])),
        pb.Envelope(escalated_claims=pb.EscalatedClaims(sender="tor0", claims=pb.Claims(flow=[A]))),
        pb.Envelope(escalated_claims=pb.EscalatedClaims(sender="tor0", withdrawn=["a"])),
    ],
)
def test_envelopes_without_a_message(wire: pb.Envelope) -> None:
    with pytest.raises(BadMessage):
        message_from_envelope(wire, PATHS)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_refused(data: bytes) -> None:
    for kind, read in (
        (pb.Envelope, lambda wire: message_from_envelope(wire, PATHS)),
        (pb.Feedback, FEEDBACK.from_wire),
    ):
        with suppress(DecodeError, BadMessage):
            read(kind.FromString(data))
