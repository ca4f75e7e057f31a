"""Who is lossy; and what a kernel does not take is left as it was."""

import pytest

from hostd.enforce import transport
from hostd.enforce.transport import AS_THE_KERNEL, JUDGED_BYTES, LOSSY, TCP_RTO_MIN_US, Losses, Transport
from hostd.tcp_info import TcpCounters

SEGMENT_BYTES = 1448


def test_nothing_said_nothing_changed() -> None:
    assert AS_THE_KERNEL.always() == AS_THE_KERNEL.where_lossy() == {}


@pytest.mark.parametrize(("tick_ms", "set_us"), [(1.0, 10_000), (4.0, 10_000), (10.0, 20_000)])
def test_the_least_time_is_two_ticks_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, tick_ms: float, set_us: int
) -> None:
    monkeypatch.setattr(transport, "_accepted", lambda _, value: int.from_bytes(value, "little") >= 2e3 * tick_ms)
    assert Transport(retransmit_ms=10.0).where_lossy() == {TCP_RTO_MIN_US: set_us.to_bytes(4, "little")}


def test_a_kernel_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_accepted", lambda *_: False)
    assert Transport("reno", 10.0).where_lossy() == {}


def test_a_path_is_judged_by_what_went_lost_lately_and_not_by_a_few_packets() -> None:
    losses, bad = Losses(), round(2 * LOSSY * JUDGED_BYTES)
    assert not losses.look(_sent(JUDGED_BYTES // 2, bad)), "too little to tell"
    assert losses.look(_sent(JUDGED_BYTES, bad))
    assert losses.look(_sent(JUDGED_BYTES + 1, bad)), "nothing new"
    assert losses.look(_sent(2 * JUDGED_BYTES, 2 * bad))
    assert not losses.look(_sent(3 * JUDGED_BYTES, 2 * bad + 9 * SEGMENT_BYTES))


def test_one_packet_makes_no_lossy_path() -> None:
    losses = Losses()
    assert not losses.look(_sent(JUDGED_BYTES, SEGMENT_BYTES))
    assert losses.look(_sent(2 * JUDGED_BYTES, 12 * SEGMENT_BYTES))


def _sent(acked_bytes: int, again_bytes: int) -> TcpCounters:
    return TcpCounters(True, acked_bytes, 0, 0, again_bytes, 100, SEGMENT_BYTES)
