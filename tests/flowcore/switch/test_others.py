"""Cross traffic on hosts' own uplinks, as they report it: what flows see of it, whose word counts, and for how long."""

import pytest

from paceline.flowcore.messages.events import Tick
from paceline.flowcore.messages.reports import Claim, Grant, Report
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.topology_file import parse_topology_file
from paceline.flowcore.switch.claims import Claims
from paceline.flowcore.switch.load_table import ENTRY_SLOTS
from tests.flowcore.switch.fabric import FAR, GBPS, HORIZON, SLOT_NS, STAR, TREE, A, B, C, Fabric, claim

OTHERS_BPS = 3e8
TWO_NICS = """
version = 1
[switches]
core = {}
rack1 = {parents = ["core"], gbps = 100}
rack2 = {parents = ["core"], gbps = 100}
[hosts]
h0 = {nics = [{switch = "rack1", gbps = 100}, {name = "rail1", switch = "rack2", gbps = 50}]}
"""


class Beside(Fabric):
    """Its hosts report cross traffic."""

    def say(self, host: str, others_bps: float, *claims: Claim, to: str | None = None) -> dict[FlowId, Grant]:
        self.number += 1
        said = Report(host, self.number, self.slot, claims, (), others_bps)
        return self.tell(to or self.topology.switch_of[host], said)


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_flows_from_there_see_it_in_every_slot_and_others_do_not(policy: str) -> None:
    fabric = Beside(STAR, policy)
    grants = fabric.say("h0", OTHERS_BPS, claim(STAR, A), claim(STAR, B))
    for flow in (A, B):
        assert grants[flow].available_bps == (0.7 * GBPS,) * HORIZON
        assert grants[flow].load == pytest.approx((0.3,) * HORIZON)
    assert fabric.report("h3", claim(STAR, C))[C].available_bps == (GBPS,) * HORIZON


def test_shares_are_as_without_it() -> None:
    fabric, beside = Beside(STAR, "paceline"), Beside(STAR, "paceline")
    without, with_it = (one.say("h0", bps, claim(STAR, A)) for one, bps in ((fabric, 0.0), (beside, OTHERS_BPS)))
    assert without[A].share_bps == with_it[A].share_bps == GBPS
    assert without[A].ceiling_bps == with_it[A].ceiling_bps


def test_what_is_accepted_leaves_it_room_and_what_was_accepted_before_stays() -> None:
    fabric = Beside(STAR, "mlcc")
    assert fabric.report("h0", claim(STAR, A, (0.6 * GBPS,)))[A].accepted
    assert not fabric.say("h0", OTHERS_BPS, claim(STAR, B, (0.2 * GBPS,)))[B].accepted
    assert fabric.say("h0", OTHERS_BPS, claim(STAR, B, (0.1 * GBPS,)))[B].accepted
    table = fabric.switches["sw"].table
    assert table.load_bps("h0->sw", 0) == pytest.approx(GBPS) and table.others_bps("h0->sw") == OTHERS_BPS


def test_it_ends_with_the_hosts_next_word_or_with_its_last_ones_lease() -> None:
    fabric = Beside(STAR, "mlcc")
    table = fabric.switches["sw"].table
    fabric.say("h0", OTHERS_BPS, claim(STAR, A))
    fabric.say("h0", 0.0, claim(STAR, A))
    assert table.others_bps("h0->sw") == 0.0
    fabric.say("h0", OTHERS_BPS, claim(STAR, A))
    fabric.report("h0", withdrawn=(A,))  # its report says that there is none
    assert table.others_bps("h0->sw") == 0.0
    fabric.say("h0", OTHERS_BPS)
    fabric.wait_until((ENTRY_SLOTS + 2) * SLOT_NS)
    fabric.tell("sw", Tick())
    assert table.others_bps("h0->sw") == 0.0


def test_a_switch_speaks_for_no_host() -> None:
    """And what a ToR forwards says nothing of its hosts' uplinks, which it keeps itself."""
    fabric = Beside(TREE, "mlcc")
    fabric.say("tor0", OTHERS_BPS, claim(TREE, FAR), to="edge0")
    fabric.say("h0", OTHERS_BPS, claim(TREE, FAR))
    loaded = [link for one in fabric.switches.values() for link in one.table.capacity_bps if one.table.others_bps(link)]
    assert loaded == ["h0->tor0"]


def test_it_is_spread_over_the_uplinks_of_a_host_with_several() -> None:
    claims = Claims(domains(parse_topology_file(TWO_NICS, "t.toml").topology)["rack1"], HORIZON)
    claims.take_others("h0", 30e9, 0)
    assert claims.table.others_bps("h0->rack1") == pytest.approx(20e9)
    assert claims.table.others_bps("h0->rack2") == pytest.approx(10e9)
