"""What a kernel does not take is left as it was."""

import socket

import pytest

from hostd.enforce import transport
from hostd.enforce.transport import AS_THE_KERNEL, TCP_CONGESTION, TCP_RTO_MIN_US, Transport


def test_nothing_said_nothing_changed() -> None:
    assert AS_THE_KERNEL.settings() == {}


@pytest.mark.parametrize(("ticks_ms", "set_us"), [(1.0, 10_000), (4.0, 10_000), (10.0, 20_000)])
def test_the_least_time_is_two_ticks_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, ticks_ms: float, set_us: int
) -> None:
    least_us = 2 * ticks_ms * 1e3
    monkeypatch.setattr(transport, "_accepted", lambda _, value: int.from_bytes(value, "little") >= least_us)
    assert Transport(retransmit_ms=10.0).settings() == {TCP_RTO_MIN_US: set_us.to_bytes(4, "little")}


def test_a_kernel_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_accepted", lambda *_: False)
    assert Transport("reno", 10.0).settings() == {TCP_CONGESTION: b"reno"}


def test_this_kernel() -> None:
    with socket.socket() as one:
        for option, value in Transport("reno", 10.0).settings().items():
            one.setsockopt(*option, value)
            assert option != TCP_CONGESTION or one.getsockopt(*option, 16).rstrip(b"\0") == value
