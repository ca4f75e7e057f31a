"""The rules that C has too are flowcore's own, to the last bit (paceline/sim/kernel/control/rules.c).

Each test is named after the rows of docs/design.md ("Rules that C has too"); tests/test_design.py holds the list.
"""

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.stalls import StallDetector
from paceline.flowcore.host.flow_phase import Phase
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.reports import Bid, Grant
from paceline.flowcore.policy import paceline
from paceline.flowcore.policy.arbitrated import asks, handover_bytes, too_short
from paceline.sim.kernel.control import library as mirrored
from paceline.sim.kernel.library import FRACTION, NUMBER, library

found = library()
pytestmark = pytest.mark.skipif(found is None, reason="without a compiler there are flowcore's own alone")

RULES = mirrored.rules()
SLOT_NS = 60_000_000
times_ns = st.integers(0, 2**40)
spans_ns = st.integers(0, 10**9)
fractions = st.floats(0.0, 1.0)
rates_bps = st.floats(0.0, 1e11)
volumes = st.floats(0.0, 1e10)


def c(name: str, result: type | None, *arguments: object) -> object:
    """A rule in C; numbers are passed as what they are in Python."""
    kinds = {int: NUMBER, float: FRACTION, bool: ctypes.c_int}
    function = getattr(found, name)
    function.restype = result
    return function(*(kinds.get(type(one), lambda same: same)(one) for one in arguments))


@pytest.mark.parametrize("name", ["rules", "progress", "stalls", "bid"])
def test_structures_are_mirrored_field_by_field(name: str) -> None:
    header = (Path(mirrored.__file__).parent / "control.h").read_text()
    (body,) = re.findall(rf"struct {name} \{{(.*?)\}};", re.sub(r"/\*.*?\*/", "", header), re.DOTALL)
    declared = [field for line in body.split(";") for field in re.findall(r"\w+", line)[1:]]
    kind = {"rules": mirrored.Rules, "progress": mirrored.Progress, "stalls": mirrored.Stalls, "bid": mirrored.BidInC}
    assert declared == [field for field, _ in kind[name]._fields_]


def test_phases() -> None:
    for number, phase in enumerate(Phase):  # the order of control.h
        assert c("is_live", ctypes.c_int, number) == phase.live
        assert c("is_claimed", ctypes.c_int, number) == phase.claimed


@given(st.floats(0.0, 1e9), st.integers(0, 20_000_000))
def test_too_short_and_asks(alone_ns: float, rtt_ns: int) -> None:
    rules = ctypes.byref(RULES)
    assert c("too_short", ctypes.c_int, rules, alone_ns, rtt_ns) == too_short(alone_ns, rtt_ns)
    assert c("asks", ctypes.c_int, rules, alone_ns, rtt_ns, SLOT_NS) == asks(alone_ns, rtt_ns, SLOT_NS)


@given(rates_bps, st.integers(0, 20_000_000))
def test_handover_bytes(share_bps: float, rtt_ns: int) -> None:
    grant: Grant = SimpleNamespace(share_bps=share_bps)  # type: ignore[assignment]
    expected = handover_bytes(grant, rtt_ns)
    assert c("handover_bytes", FRACTION, share_bps, rtt_ns) == (-1.0 if expected is None else expected)


@given(st.lists(st.tuples(spans_ns, rates_bps, volumes), max_size=12), volumes)
def test_observe_and_may_claim(slots: list[tuple[int, float, float]], moved_bytes: float) -> None:
    expected, stalls, rules = StallDetector(), mirrored.Stalls(), ctypes.byref(RULES)
    for slot, (busy_ns, promised_bps, sent_bytes) in enumerate(slots):
        expected.observe(slot, SLOT_NS, busy_ns, promised_bps, sent_bytes)
        c("observe", None, rules, ctypes.byref(stalls), slot, SLOT_NS, busy_ns, promised_bps, sent_bytes)
        assert bool(stalls.unused) == expected.unused
        for later in (slot, slot + 1, slot + 9):
            may = c("may_claim", ctypes.c_int, rules, ctypes.byref(stalls), later, SLOT_NS, moved_bytes)
            assert may == expected.may_claim(later, SLOT_NS, moved_bytes)


HAPPENS = st.tuples(st.sampled_from(["computed", "credit", "stalled", "ended"]), spans_ns, volumes)


@given(st.lists(HAPPENS, max_size=30), st.floats(0.25, 8.0), st.floats(0.0, 1e9))
def test_progress(events: list[tuple[str, int, float]], weight: float, alone_ns: float) -> None:
    size_bytes, now_ns, rules = 5e9, 1_000, ctypes.byref(RULES)
    expected = JobProgress(now_ns, weight)
    expected.alone_comm_ns = alone_ns
    one = mirrored.Progress(
        weight=weight, alone_comm_ns=alone_ns, pace=1.0, bursts=1, started_ns=1_000, updated_ns=1_000
    )
    for what, passed_ns, sent_bytes in events:
        now_ns += passed_ns
        if what == "computed":
            expected.compute_ended(now_ns)
            c("compute_ended", None, rules, ctypes.byref(one), now_ns)
        elif what == "ended":
            expected.iteration_ended(now_ns, 0.0)
            c("iteration_ended", None, rules, ctypes.byref(one), now_ns)
        else:
            sent_bytes = 0.0 if what == "stalled" else sent_bytes
            expected.credit(now_ns, sent_bytes, size_bytes, stalled=what == "stalled")
            c("credit_progress", None, rules, ctypes.byref(one), now_ns, sent_bytes, size_bytes, what == "stalled")
        assert (one.slowdown, one.compute_ns, one.bursts) == (expected.slowdown, expected.compute_ns, expected.bursts)
        assert bool(one.communicating) == expected.communicating


@given(st.floats(1 / 16, 1.0), st.floats(0.0, 1e9), st.floats(1.0, 1e9), st.floats(0.25, 8.0), fractions)
def test_bid_of_paceline(pace: float, compute_ns: float, alone_ns: float, weight: float, left: float) -> None:
    one = mirrored.Progress(weight=weight, compute_ns=compute_ns, alone_comm_ns=alone_ns, pace=pace, bursts=1)
    given_bid = mirrored.BidInC()
    c("bid_of_paceline", None, ctypes.byref(one), left, ctypes.byref(given_bid))
    expected = paceline.Paceline().bid(JobState(one, left, 7))  # type: ignore[arg-type]
    assert (given_bid.urgency, given_bid.compute_ns, given_bid.remaining_ns) == tuple(expected)


BIDS = st.builds(Bid, st.floats(0.1, 256.0), st.floats(0.0, 1e9), st.floats(0.0, 1e9))


@given(st.lists(BIDS, min_size=1, max_size=20))
def test_weights_of_paceline(bids: list[Bid]) -> None:
    many, weights = (mirrored.BidInC * len(bids))(*(tuple(bid) for bid in bids)), (FRACTION * len(bids))()
    c("weights_of_paceline", None, ctypes.byref(RULES), len(bids), many, weights)
    assert weights[:] == pytest.approx(paceline.weights(bids), rel=1e-12)  # newer Pythons sum more exactly


@given(BIDS, BIDS)
def test_more_urgent(one: Bid, other: Bid) -> None:
    given_bids = [ctypes.byref(mirrored.BidInC(*bid)) for bid in (one, other)]
    assert c("more_urgent", ctypes.c_int, *given_bids) == (one > other)
