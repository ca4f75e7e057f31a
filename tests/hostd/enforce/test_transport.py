"""Who is lossy; and what a kernel does not take is left as it was."""

import pytest

from hostd.enforce import transport
from hostd.enforce.transport import (
    AS_THE_KERNEL,
    LOSSY,
    READ_BYTES,
    TCP_CONGESTION,
    TCP_RTO_MIN_US,
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


def judged(*again: float) -> list[bool]:
    """After each reading, in which so many times the limit was sent again."""
    losses, acked_bytes, again_bytes, said = Losses(), 0, 0, []
    for times in again:
        acked_bytes += READ_BYTES
        again_bytes += round(times * LOSSY * READ_BYTES)
        said.append(losses.look(_sent(acked_bytes, again_bytes)))
    return said


def test_a_path_that_loses_packets_in_every_reading_is_lossy_until_none_does() -> None:
    assert judged(1, 2, 1, 0.9, 0, 0.5) == [False, False, True, True, True, False]


def test_a_queue_that_overflows_now_and_then_is_no_lossy_path() -> None:
    assert not any(judged(*(9, 9, 0.5) * 10))


def test_too_little_sent_says_nothing() -> None:
    losses = Losses()
    assert not any(losses.look(_sent(sent, sent)) for sent in (READ_BYTES // 4, READ_BYTES // 2, READ_BYTES - 1))
    assert [losses.look(_sent(times * READ_BYTES, times * READ_BYTES)) for times in (1, 2, 3)] == [False, False, True]
    assert losses.look(_sent(4 * READ_BYTES - 1, 3 * READ_BYTES)), "as before"


def _sent(acked_bytes: int, again_bytes: int) -> TcpCounters:
    return TcpCounters(True, acked_bytes, 0, 0, again_bytes, 100, SEGMENT_BYTES)
