"""Cross traffic on a host's own NIC: it reports that, and leaves it room where it plans alone."""

import math

import pytest

from paceline.flowcore.messages.events import OthersSend
from tests.flowcore.host.scripted_host import FLOOR_BPS, GBPS, HORIZON, SLOT_NS, Host, grant, ring

OTHERS_BPS = 4e8


@pytest.mark.parametrize("policy", ["mlcc", "mlcc-open", "paceline"])
def test_every_report_says_it_until_it_has_ended(policy: str) -> None:
    host = Host(policy)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.tell(OthersSend(OTHERS_BPS, foreign=True))
    host.ready(flow, 0)
    host.until(2 * SLOT_NS)
    said = [report for _, report in host.reports()]
    assert said and all(report.others_bps == OTHERS_BPS for report in said)
    host.tell(OthersSend(0.0, foreign=False))
    host.until(4 * SLOT_NS)
    later = [report for _, report in host.reports()[len(said) :]]
    assert later and all(report.others_bps == 0.0 for report in later)


@pytest.mark.parametrize(("load_bps", "said_bps"), [(-1.0, 0.0), (math.nan, 0.0), (math.inf, GBPS), (2 * GBPS, GBPS)])
def test_it_is_never_more_than_the_nic_carries(load_bps: float, said_bps: float) -> None:
    host = Host()
    host.tell(OthersSend(load_bps, foreign=True))
    assert host.agent.others_bps == said_bps


def test_a_host_on_its_own_plans_what_it_leaves() -> None:
    host = Host("mlcc", switch=None)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.tell(OthersSend(OTHERS_BPS, foreign=True))
    host.ready(flow, 0)
    host.until(2 * SLOT_NS)
    assert host.limit_of(flow)[0] == pytest.approx(GBPS - OTHERS_BPS)
    host.tell(OthersSend(0.0, foreign=False))
    host.until(4 * SLOT_NS)
    assert host.limit_of(flow)[0] > GBPS - OTHERS_BPS


@pytest.mark.parametrize("others_bps", [OTHERS_BPS, 0.1 * GBPS])
def test_a_share_stays_as_it_is_and_only_the_plan_leaves_room(others_bps: float) -> None:
    """Or the switch would refuse it in every slot. It knows on which of the host's links they are: the other NICs may
    have room."""
    host = Host("paceline")
    [flow] = host.join(ring("a", "h0", "h1"))
    host.tell(OthersSend(others_bps, foreign=True))
    host.ready(flow, 0)
    host.answer(grant(flow, GBPS, GBPS, available_bps=(GBPS - OTHERS_BPS,) * HORIZON))
    host.until(SLOT_NS + SLOT_NS // 2)
    assert host.limit_of(flow) == (GBPS, GBPS)
    [claim] = host.reports()[-1][1].claims
    assert len(claim.plan_bps) > HORIZON // 2 and max(claim.plan_bps) == GBPS - OTHERS_BPS > FLOOR_BPS
