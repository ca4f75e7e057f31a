"""What the kernel holds a flow to agrees with what was decided, unless another program has changed it."""

from contextlib import closing
from pathlib import Path

import pytest

from hostd.enforce.base import agrees
from hostd.enforce.enforcer import Enforcer
from hostd.enforce.settings import EnforcementSettings
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.units import UNLIMITED
from tests.hostd.conftest import FLOW, Wire

pytestmark = pytest.mark.root

NIC_BPS = 1e9


@pytest.mark.parametrize(
    ("rate_bps", "ceiling_bps", "kernel_bps", "agreed"),
    [
        (6e8, 9e8, 6e8, True),  # htb
        (6e8, 9e8, 8.5e8, True),  # pacing, which borrows
        (6e8, 9e8, 3e8, False),
        (6e8, 6.5e8, 9.9e8, False),
        (3e8, 6e8, UNLIMITED, False),
        (UNLIMITED, UNLIMITED, 8e6, True),  # never limited: htb guarantees nothing, and lets it borrow all
        (FLOOR_BPS, NIC_BPS, 8e6, True),  # idle
        (FLOOR_BPS, FLOOR_BPS, 1e7, True),  # as low as the kernel goes
        (FLOOR_BPS, FLOOR_BPS, 5e8, False),
    ],
)
def test_between_guarantee_and_ceiling(rate_bps: float, ceiling_bps: float, kernel_bps: float, agreed: bool) -> None:
    assert agrees(Limit(FLOW, rate_bps, ceiling_bps), kernel_bps, NIC_BPS) is agreed


@pytest.mark.parametrize("backend", ["htb", "pacing"])
def test_real_backends_agree_with_themselves(wire: Wire, tmp_path: Path, backend: str) -> None:
    wire.sink()
    sockets = wire.send(1).sockets(1)
    settings = EnforcementSettings(True, tmp_path / "run" / "lease.json", NIC_BPS, backend)
    pairs = [(FLOOR_BPS, NIC_BPS), (FLOOR_BPS, FLOOR_BPS), (3e8, 6e8), (NIC_BPS, NIC_BPS), (UNLIMITED, UNLIMITED)]
    with wire.here.enter(), closing(Enforcer(settings, 1_000_000_000)) as enforcer:
        enforcer.attach(FLOW, sockets)
        for pair in pairs:
            limit = Limit(FLOW, *pair)
            enforcer.apply([limit])
            assert agrees(limit, enforcer.read_back()[FLOW].rate_bps, NIC_BPS), pair
