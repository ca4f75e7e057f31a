"""SwitchAgent over more slots than it remembers: what falls silent is forgotten, and what stays goes on."""

from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS
from tests.flowcore.switch.fabric import GBPS, SLOT_NS, STAR, Fabric, claim, flow

SILENT, STAYING = flow("a", "h0", "h1"), flow("a", "h1", "h0")


def test_a_silent_flow_of_size_0_is_forgotten_while_its_job_goes_on() -> None:
    fabric = Fabric(STAR, "paceline")
    fabric.report("h0", claim(STAR, SILENT, size_bytes=0.0))
    granted = {}
    for _ in range(JOB_MEMORY_SLOTS + JOB_MEMORY_SLOTS // 5):
        granted = fabric.report("h1", claim(STAR, STAYING))
        fabric.wait_until(fabric.now_ns + SLOT_NS)
    assert granted[STAYING].share_bps == GBPS
    assert granted[STAYING].alone_ns == 200_000_000
