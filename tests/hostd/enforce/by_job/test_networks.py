"""`auto` with a job in hostd's network and one in another: one in an HTB class, the other paced, each at its share."""

from contextlib import closing
from pathlib import Path

import pytest

from hostd.enforce.by_job.backend import ELSEWHERE, HERE
from hostd.enforce.enforcer import Enforcer
from hostd.enforce.settings import EnforcementSettings
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, Role
from tests.hostd.conftest import HERE as HERE_ADDRESS
from tests.hostd.conftest import PORT, Wire

pytestmark = pytest.mark.root

NIC = 1e9
OURS, POD = (FlowId(job, "h0", "h1", Role.RING) for job in ("ours", "pod"))


def test_each_is_held_where_it_can_be_and_all_is_taken_back(wire: Wire, tmp_path: Path) -> None:
    settings = EnforcementSettings(True, tmp_path / "run" / "lease.json", nic_bps=NIC, backend="auto")
    with wire.here.enter():
        enforcer = Enforcer(settings, 1_000_000_000)  # before two jobs take all CPUs, which its guardian needs to start
    wire.stack.callback(enforcer.close)
    wire.sink()
    ours = wire.send(1).sockets(1)
    back = Wire(wire.there, wire.here, wire.stack)  # the other way: a job in another network than hostd's
    back.sink(str(HERE_ADDRESS.ip), PORT + 1)
    pod = back.send(1, str(HERE_ADDRESS.ip), PORT + 1).sockets(1)
    before, before_pod = wire.state(ours), back.state(pod)
    with wire.here.enter(), closing(enforcer):
        enforcer.attach(OURS, ours)
        enforcer.attach(POD, pod)
        assert enforcer.choice("ours") == ("htb", HERE) and enforcer.choice("pod") == ("pacing", ELSEWHERE)
        enforcer.apply([Limit(OURS, 0.6 * NIC, NIC), Limit(POD, FLOOR_BPS, NIC)])
        held = enforcer.read_back()
        assert held[OURS].rate_bps == pytest.approx(0.6 * NIC, rel=0.01)
        assert held[POD].rate_bps == pytest.approx(0.4 * NIC, rel=0.05), "what the other backend's job leaves"
        enforcer.apply([Limit(OURS, FLOOR_BPS, NIC), Limit(POD, 0.7 * NIC, NIC)])
        held = enforcer.read_back()
        assert held[POD].rate_bps >= 0.7 * NIC * 0.95 and held[OURS].ceiling_bps == pytest.approx(0.3 * NIC, rel=0.01)
        assert not enforcer.errors.by_reason
    assert wire.state(ours) == before and back.state(pod) == before_pod
