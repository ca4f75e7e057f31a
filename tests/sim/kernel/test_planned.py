"""What C has of `mlcc` is flowcore's own, to the last bit (paceline/sim/kernel/planned/rules.c)."""

import ctypes
import re
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.allocator import allocate
from paceline.flowcore.host.bandwidth import BandwidthEstimate, Sample, Stretches
from paceline.flowcore.host.flow_state import FlowState
from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.policy.mlcc import Mlcc
from paceline.sim.kernel.library import FRACTION, NUMBER, library
from paceline.sim.kernel.planned import library as mirrored

found = library()
pytestmark = pytest.mark.skipif(found is None, reason="without a compiler there are flowcore's own alone")

RULES = mirrored.planning()
LINE_BPS = 1e10
CLOCK = SlotClock(60_000_000, 6)
volumes = st.floats(0.0, 1e9)
rates_bps = st.one_of(st.floats(0.0, LINE_BPS), st.sampled_from([0.0, 1e6, LINE_BPS / 2, LINE_BPS]))
prices = st.one_of(st.floats(0.0, 4.0), st.sampled_from([0.0, 0.5, 1.0]))  # equal ones are filled in order


def c(name: str, result: type | None, *arguments: object) -> Any:
    """A rule in C, after the constants; numbers are passed as what they are in Python."""
    kinds = {int: NUMBER, float: FRACTION, bool: ctypes.c_int}
    function = getattr(found, name)
    function.restype = result
    return function(*(kinds.get(type(one), lambda same: same)(one) for one in arguments))


def column(numbers: object) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array(numbers, np.float64)


def at(numbers: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.ctypes.data)


@pytest.mark.parametrize("name", ["planning", "estimate", "stretches", "question"])
def test_structures_are_mirrored_field_by_field(name: str) -> None:
    header = (Path(mirrored.__file__).parent / "planned.h").read_text()
    (body,) = re.findall(rf"struct {name} \{{(.*?)\}};", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL), re.DOTALL)
    body = re.sub(r"\bconst |\[\w+\]", "", body)
    declared = [field for line in body.split(";") for field in re.findall(r"\w+", line)[1:]]
    kind = {
        "planning": mirrored.Planning,
        "estimate": mirrored.Estimate,
        "stretches": mirrored.StretchesInC,
        "question": mirrored.Question,
    }
    assert declared == [field[0] for field in kind[name]._fields_]


@given(st.lists(st.tuples(st.floats(0.0, 1e8), prices), min_size=1, max_size=12), st.floats(0.0, 1.2))
def test_allocate(slots: list[tuple[float, float]], part: float) -> None:
    room, price = zip(*slots, strict=True)
    volume_bytes, planned = part * sum(room), column([0.0] * len(room))
    rooms, of = column(room), column(price)
    c("allocate_volumes", None, ctypes.byref(RULES), volume_bytes, len(room), at(rooms), at(of), at(planned))
    assert tuple(planned.tolist()) == allocate(volume_bytes, room, price).volume_bytes


READINGS = st.tuples(st.integers(0, 20_000_000), rates_bps, volumes, st.booleans())


@given(st.lists(st.lists(READINGS, max_size=6), max_size=9), st.booleans())
def test_stretches_and_bandwidth(slots: list[list[tuple[int, float, float, bool]]], whole: bool) -> None:
    stretches, estimate = Stretches(whole_slots=whole), BandwidthEstimate(LINE_BPS)
    one, guess = mirrored.StretchesInC(whole_slots=whole), mirrored.Estimate(line_rate_bps=LINE_BPS)
    rules, sent_bps, limit_bps = ctypes.byref(RULES), FRACTION(), FRACTION()
    c("begin_stretches", None, ctypes.byref(one))
    for slot, readings in enumerate(slots):
        counts = True
        for elapsed_ns, limit, fresh_bytes, counts in readings:
            stretches.passed(elapsed_ns, limit)
            c("pass_stretch", None, ctypes.byref(one), elapsed_ns, limit)
            stretches.sent(fresh_bytes, counts=counts)
            c("sent_in_stretch", None, rules, ctypes.byref(one), fresh_bytes, counts)
        sample = stretches.take(counts=counts)
        pointers = ctypes.byref(sent_bps), ctypes.byref(limit_bps)
        taken = c("take_stretches", ctypes.c_int, ctypes.byref(one), counts, *pointers)
        assert (Sample(sent_bps.value, limit_bps.value) if taken else None) == sample
        if sample is not None:
            estimate.observe(slot, sample)
            c("observe_bandwidth", None, rules, ctypes.byref(guess), slot, *sample)
        for later in (slot, slot + 2, slot + 5):
            assert c("bandwidth_value", FRACTION, rules, ctypes.byref(guess), later) == estimate.value(later)


@given(
    st.lists(st.tuples(rates_bps, prices, rates_bps), min_size=CLOCK.horizon, max_size=CLOCK.horizon),
    st.floats(0.0, 1.0),
    st.sampled_from([Role.RING, Role.PUSH, Role.PULL]),
    st.one_of(st.just(inf), volumes),
    volumes,
    st.sampled_from([0.0, 1e6, inf]),
    st.integers(0, CLOCK.length_ns - 1),
    st.lists(rates_bps, max_size=CLOCK.horizon),
)
def test_plan(
    slots: list[tuple[float, float, float]],
    sent: float,
    role: Role,
    upstream_bytes: float,
    downstream_bytes: float,
    window_bytes: float,
    into_ns: int,
    earlier_bps: list[float],
) -> None:
    available_bps, load, taken_bps = (tuple(one) for one in zip(*slots, strict=True))
    spec = FlowSpec(FlowId("job", "h0", "h1", role), 1e8, (), window_bytes)
    flow = FlowState(spec=spec, path=(), downstream=(), bandwidth=BandwidthEstimate(LINE_BPS))
    flow.sent_bytes, flow.plan_bps, flow.plan_slot = sent * 1e8, tuple(earlier_bps), 6
    grant = Grant(spec.flow, True, 0.0, 0.0, available_bps, load, 0, upstream_bytes, downstream_bytes)
    flow.take_grant(grant, 7)
    before = [*flow.plan_bps[1:], *[0.0] * CLOCK.horizon][: CLOCK.horizon]
    question = mirrored.Question(
        remaining_bytes=flow.remaining_bytes,
        volume_bytes=flow.volume_bytes,
        window_bytes=window_bytes,
        bandwidth_bps=LINE_BPS,
        upstream_bytes=upstream_bytes,
        downstream_bytes=downstream_bytes,
        horizon=CLOCK.horizon,
        slot_ns=CLOCK.length_ns,
        left_ns=CLOCK.length_ns - into_ns,
        push=role is Role.PUSH,
    )
    columns = [column(one) for one in (available_bps, load, before, taken_bps, before)]
    question.available_bps, question.load = columns[0].ctypes.data, columns[1].ctypes.data
    c("plan_rates", None, ctypes.byref(RULES), ctypes.byref(question), *map(at, columns[2:]))
    limits = list[tuple[float, float]]()
    host: Any = SimpleNamespace(clock=CLOCK, nic_bps=LINE_BPS, limit=lambda flow, *limit: limits.append(limit))
    committed_bps = list(taken_bps)
    Mlcc()._plan(host, flow, committed_bps, CLOCK.start_ns(7) + into_ns)
    assert tuple(columns[4].tolist()) == flow.plan_bps
    assert columns[3].tolist() == committed_bps
    assert len(limits) == 1
