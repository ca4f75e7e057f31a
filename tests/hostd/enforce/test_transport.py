"""What a kernel does not take is left as it was."""

import pytest

from hostd.enforce import transport
from hostd.enforce.transport import (
    AS_THE_KERNEL,
    TCP_CONGESTION,
    TCP_RTO_MIN_US,
    Transport,
)


def test_nothing_said_nothing_changed() -> None:
    assert AS_THE_KERNEL.always() == AS_THE_KERNEL.where_lossy(True) == {}


@pytest.mark.parametrize(("tick_ms", "set_us"), [(1.0, 10_000), (4.0, 10_000), (10.0, 20_000)])
def test_the_least_time_is_two_ticks_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, tick_ms: float, set_us: int
) -> None:
    monkeypatch.setattr(transport, "_accepted", lambda _, value: int.from_bytes(value, "little") >= 2e3 * tick_ms)
    assert Transport(min_rto_ms=10.0).where_lossy(False) == {TCP_RTO_MIN_US: set_us.to_bytes(4, "little")}


def test_a_kernel_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_accepted", lambda *_: False)
    assert Transport("reno", 10.0).where_lossy(True) == {}


def test_a_congestion_control_that_is_named_is_used() -> None:
    assert Transport("reno", 10.0).where_lossy(True).keys() == {TCP_RTO_MIN_US}
    assert Transport(None, 10.0).where_lossy(True).keys() == {TCP_RTO_MIN_US, TCP_CONGESTION}
