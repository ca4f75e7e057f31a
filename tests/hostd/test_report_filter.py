"""What one job or tenant does costs the host nothing at its switch."""

import math

import pytest

from hostd.report_filter import ReportFilter, unsendable
from paceline.flowcore.messages.reports import Bid, Claim, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import star
from paceline.flowcore.model.units import UNLIMITED
from paceline.wire.codec import LARGEST, REPORT, BadMessage, FlowPaths

STAR = star(4, 1.0)
PATHS = FlowPaths(STAR)


def claim(job: str, target: str = "h1", **other: object) -> Claim:
    flow = FlowId(job, "h0", target, Role.RING)
    return Claim(flow, PATHS.path(flow), 1e6, Bid(1.0), 0.0, 0.0, (), ())._replace(**other)


def report(*claims: Claim, withdrawn: tuple[Withdrawal, ...] = ()) -> Report:
    return Report("h0", 1, 0, claims, withdrawn)


ODD = (-1.0, -0.0, 0.0, 1.0, LARGEST, 1.01 * LARGEST, 1e19, 1e300, math.inf, -math.inf, math.nan)
FIELDS = (
    "size_bytes",
    "sent_bytes",
    "planned_bytes",
    "promised_bytes",
    "compute_ns",
    "remaining_ns",
    "urgency",
    "plan",
)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("number", ODD)
def test_it_holds_back_exactly_what_a_switch_refuses(field: str, number: float) -> None:
    match field:
        case "plan":
            made = claim("1/a", plan_bps=(1.0, number))
        case "urgency" | "compute_ns" | "remaining_ns":
            made = claim("1/a", bid=Bid(1.0)._replace(**{field: number}))
        case _:
            made = claim("1/a", **{field: number})
    try:
        REPORT.from_wire(REPORT.to_wire(report(made)), PATHS)
        refused = False
    except BadMessage:
        refused = True
    assert unsendable([report(made, claim("2/a"))]).keys() == ({"1/a"} if refused else set())


def test_the_rest_of_the_report_is_sent() -> None:
    bad, good = claim("1/a", sent_bytes=1e19), claim("2/a")
    gone = Withdrawal(bad.flow, 1e19), Withdrawal(good.flow, 1.0), Withdrawal(good.flow, UNLIMITED)
    filtered = ReportFilter(10)
    assert filtered.passed(report(bad, good, withdrawn=gone), 0, {"1/a"}) == report(good, withdrawn=gone[1:])
    assert filtered.passed(report(bad), 0, {"1/a"}) is None
    whole = report(good)
    assert filtered.passed(whole, 0) is whole


def test_a_tenant_that_is_too_busy_is_held_back_for_the_rest_of_the_slot() -> None:
    filtered = ReportFilter(3)
    mine, theirs = claim("1/a"), claim("2/a")
    for _ in range(3):
        assert filtered.passed(report(mine), 7) is not None
    assert filtered.passed(report(mine), 7) is None
    assert filtered.passed(report(mine, theirs), 7) == report(theirs)
    assert filtered.held_back == {"1": 2}
    assert filtered.passed(report(mine), 8) is not None
