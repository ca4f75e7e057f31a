"""The stream to a parent: whatever goes wrong with it, it is opened again, and the switch goes on."""

import pytest

from flowcore.topology import tree
from switchd import switch as switch_module
from tests.switchd.fabric import Fabric, claim, flow, until

TREE = tree(2, 2, 1, (1.0, 1.0, 1.0))  # h0, h1 - tor0 - edge0 - tor1 - h2, h3; agg above
FAR = claim(TREE, flow("far", "h0", "h2"), 1e8)


async def test_a_parent_that_does_not_read_is_asked_again(fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    """More waits than may: the stream ends for both directions, and the next one works."""
    monkeypatch.setattr(switch_module, "SWITCH_OUTBOX", 8)
    net: Fabric = await fabric(TREE)
    h0, tor = await net.joined("h0"), net.switch("tor0")
    assert (await h0.ask(FAR)).silent == ()
    full = tor.neighbours["edge0"]
    for _ in range(9):  # nothing is written in between
        full.put(switch_module.pb.Envelope(source="tor0", to="edge0", unreachable=True))
    assert full.closed
    await until(lambda: tor.neighbours.get("edge0") not in (None, full))
    await net.connected()
    assert (await h0.ask(FAR)).silent == ()
    assert tor.refused == {"slow": 1}
