"""What systemd asks of a switch: whether it is alive, and to reload."""

import asyncio
import logging

from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import clos, star
from switchd.daemon import ALIVE_SLOTS
from tests.switchd.fabric import Fabric, claim, flow, until

STAR = star(2, 1.0)
SLOT_MS = 30.0


async def test_a_switch_whose_ticks_have_stopped_is_not_alive(fabric) -> None:
    net: Fabric = await fabric(STAR, slots=SlotsSpec(SLOT_MS, 10))
    daemon, switch = net.daemons["sw"], net.switch("sw")
    assert daemon.alive()
    await asyncio.sleep(1.5 * ALIVE_SLOTS * SLOT_MS / 1e3)
    assert daemon.alive()  # with nothing to wait for
    host = await net.joined("h0")
    await host.ask(claim(STAR, flow("a", "h0", "h1"), 1e8))
    await until(lambda: switch.agent.next_deadline() is not None and daemon.alive())
    switch.close()  # its timer
    await until(lambda: not daemon.alive())
    await host.ask(claim(STAR, flow("a", "h0", "h1"), 1e8))
    assert not daemon.alive()  # messages do not make up for ticks


async def test_there_is_nothing_to_reload_and_it_says_so(fabric, caplog) -> None:
    net: Fabric = await fabric(STAR)
    with caplog.at_level(logging.INFO):
        net.requests("sw").reload.set()
        await until(lambda: caplog.records)
    assert [record.getMessage() for record in caplog.records] == [
        "running; nothing to reload: a switch reads its configuration at its start; restart it to change it"
    ]


async def test_an_orderly_stop_is_no_loss_to_the_switch_that_stops(fabric, caplog) -> None:
    net: Fabric = await fabric(clos(2, 2, 1, (1.0, 1.0)))
    await until(lambda: "spine0" in net.switch("tor0").neighbours)
    with caplog.at_level(logging.INFO):
        net.requests("tor0").stop.set()
        await until(lambda: "tor0" not in net.switch("spine0").neighbours)
    lost = {record.switch: record.levelname for record in caplog.records if record.message == "switch lost"}
    assert lost == {"spine0": "INFO", "tor0": "WARNING"}, "the spine has lost tor0, and tor0 has lost no switch"
