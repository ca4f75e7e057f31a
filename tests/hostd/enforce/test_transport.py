"""Who is lossy; and what a kernel does not take is left as it was."""

import pytest

from hostd.enforce import transport
from hostd.enforce.transport import (
    AS_THE_KERNEL,
    JUDGED_BYTES,
    TCP_CONGESTION,
    TCP_RTO_MIN_US,
    TELLING_BYTES,
    Losses,
    Transport,
)
from hostd.tcp_info import TcpCounters

SEGMENT_BYTES = 1448


def test_nothing_said_nothing_changed() -> None:
    assert AS_THE_KERNEL.always() == AS_THE_KERNEL.where_lossy(True) == {}


@pytest.mark.parametrize(("tick_ms", "set_us"), [(1.0, 10_000), (4.0, 10_000), (10.0, 20_000)])
def test_the_least_time_is_two_ticks_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, tick_ms: float, set_us: int
) -> None:
    monkeypatch.setattr(transport, "_accepted", lambda _, value: int.from_bytes(value, "little") >= 2e3 * tick_ms)
    assert Transport(retransmit_ms=10.0).where_lossy(False) == {TCP_RTO_MIN_US: set_us.to_bytes(4, "little")}


def test_a_kernel_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_accepted", lambda *_: False)
    assert Transport("reno", 10.0).where_lossy(True) == {}


def test_whoever_named_a_congestion_control_has_it() -> None:
    assert Transport("reno", 10.0).where_lossy(True).keys() == {TCP_RTO_MIN_US}
    assert Transport(None, 10.0).where_lossy(True).keys() == {TCP_RTO_MIN_US, TCP_CONGESTION}


def test_a_path_is_judged_by_what_went_lost_lately_and_not_by_a_few_packets() -> None:
    losses, few = Losses(), TELLING_BYTES - SEGMENT_BYTES
    assert not losses.look(_sent(1_000_000, few)), "too few to tell"
    assert losses.look(_sent(1_100_000, TELLING_BYTES)), "and now they tell"
    assert losses.look(_sent(1_200_000, TELLING_BYTES)), "nothing new"
    assert not losses.look(_sent(1_200_000 + JUDGED_BYTES, TELLING_BYTES + few)), "so few of so many"


def test_a_thousandth_is_a_lot_and_less_is_not() -> None:
    assert Losses().look(_sent(20 * JUDGED_BYTES, 21 * TELLING_BYTES))
    assert not Losses().look(_sent(20 * JUDGED_BYTES, 19 * TELLING_BYTES))


def _sent(acked_bytes: int, again_bytes: int) -> TcpCounters:
    return TcpCounters(True, acked_bytes, 0, 0, again_bytes, 100, SEGMENT_BYTES)
