"""HostAgent without a switch: silent, lost, or none from the beginning."""

import pytest

from paceline.flowcore.host.agent import SILENCE_SLOTS
from paceline.flowcore.messages.events import Limit, SwitchLost
from tests.flowcore.host.scripted_host import FLOOR_BPS, GBPS, SLOT_NS, Host, grant, ring


def test_after_so_many_silent_slots_it_goes_on_with_its_own_nic() -> None:
    host = Host()
    flows = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in flows:
        host.ready(flow, 0)
    host.until(SILENCE_SLOTS * SLOT_NS)
    assert all(host.limit_of(flow) == (FLOOR_BPS, GBPS) for flow in flows)
    host.until((SILENCE_SLOTS + 1) * SLOT_NS)
    shares = sorted(host.limit_of(flow)[0] for flow in flows)
    assert sum(shares) <= GBPS + FLOOR_BPS
    assert shares[-1] == GBPS  # one of them has the NIC


def test_it_keeps_reporting_and_returns_when_the_switch_speaks() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    silent_ns = (SILENCE_SLOTS + 1) * SLOT_NS
    host.until(silent_ns)
    assert host.limit_of(flow)[0] == GBPS
    host.until(silent_ns + 2 * SLOT_NS)
    assert host.claims_of(flow, since_ns=silent_ns + 1)
    host.answer(grant(flow, 3e8, 5e8))
    assert host.limit_of(flow) == (3e8, 5e8)
    host.answer(grant(flow, 3e8, 5e8), at_ns=host.now_ns + SLOT_NS)
    assert host.limit_of(flow) == (3e8, 5e8)  # its own table no longer answers


def test_a_broken_stream_is_believed_at_once() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 1e8, 1e8))
    host.tell(SwitchLost())
    assert host.limit_of(flow) == (GBPS, GBPS)


@pytest.mark.parametrize("policy", ["paceline", "mlcc", "fifo", "srpt"])
def test_public_cloud_shares_the_nic_without_a_single_message(policy: str) -> None:
    """§VI-H: the host keeps the table of its own NIC; the same program, another configuration."""
    host = Host(policy, switch=None)
    flows = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in flows:
        host.ready(flow, 0)
    host.until(2 * SLOT_NS)
    rates = sorted(host.limit_of(flow)[0] for flow in flows)
    assert sum(rates) <= GBPS + FLOOR_BPS
    assert rates[-1] >= 0.5 * GBPS  # and no other host slows it down
    ahead = max(flows, key=lambda flow: host.limit_of(flow)[0])
    behind = next(flow for flow in flows if flow != ahead)
    since = len(host.log)
    host.done(ahead)
    host.until(4 * SLOT_NS)
    limits = [effect for _, effect in host.log[since:] if isinstance(effect, Limit)]
    assert max(limit.rate_bps for limit in limits if limit.flow == behind) == pytest.approx(GBPS)
    assert host.reports() == []
