import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.model import units

sizes_bytes = st.floats(min_value=1e-3, max_value=1e12)
rates_bps = st.floats(min_value=1e6, max_value=1e12)
# Beyond 2^50 ns a float no longer resolves one nanosecond, and the law says so.
durations_ns = st.integers(min_value=1, max_value=2**50)


def test_megabytes_and_gigabits_are_decimal() -> None:
    assert units.bytes_from_mb(25.0) == 25_000_000
    assert units.bps_from_gbps(1.0) == 1_000_000_000
    assert units.gbps_from_bps(2.5e9) == 2.5


def test_rates_are_in_bits_and_volumes_in_bytes() -> None:
    assert units.transfer_bytes(1e9, units.NS_PER_S) == 125_000_000
    assert units.transfer_ns(25e6, 1e9) == 200 * units.NS_PER_MS
    assert units.rate_bps(125e6, units.NS_PER_S) == 1e9


@pytest.mark.parametrize(
    ("duration_s", "duration_ns"),
    [(0.0, 0), (0.1, 100_000_000), (1e-9, 1), (1.4e-9, 1), (-0.5, -500_000_000)],
)
def test_seconds_become_the_nearest_nanosecond(duration_s: float, duration_ns: int) -> None:
    assert units.ns_from_s(duration_s) == duration_ns
    assert units.ns_from_ms(duration_s * 1e3) == duration_ns


@given(durations_ns)
def test_nanoseconds_survive_a_trip_through_seconds(duration_ns: int) -> None:
    assert abs(units.ns_from_s(units.s_from_ns(duration_ns)) - duration_ns) <= duration_ns >> 52


def test_a_transfer_time_is_rounded_up() -> None:
    assert units.transfer_ns(1.0, 7e9) == 2  # 1.14 ns
    assert units.transfer_ns(0.0, 1e9) == 0
    assert isinstance(units.transfer_ns(25e6, 1e9), int)


@given(sizes_bytes, rates_bps)
def test_a_transfer_is_never_declared_finished_early(size_bytes: float, rate_bps: float) -> None:
    duration_ns = units.transfer_ns(size_bytes, rate_bps)
    if duration_ns < 2**50:
        assert units.transfer_bytes(rate_bps, duration_ns) >= size_bytes


def test_a_quotient_rounded_down_onto_a_whole_number_is_not_early() -> None:
    # Found by search: the float quotient is exactly 8206, and 8206 ns at this rate fall short by one ulp.
    size_bytes, rate_bps = 13302.03475080979, 12968106020.774836
    assert units.transfer_bytes(rate_bps, 8206) < size_bytes
    assert units.transfer_bytes(rate_bps, units.transfer_ns(size_bytes, rate_bps)) >= size_bytes


@given(sizes_bytes, rates_bps)
def test_a_transfer_is_not_late_by_more_than_its_rounding(size_bytes: float, rate_bps: float) -> None:
    duration_ns = units.transfer_ns(size_bytes, rate_bps)
    early_enough_ns = duration_ns - 2 - (duration_ns >> 50)
    assert units.transfer_bytes(rate_bps, early_enough_ns) < size_bytes


@given(rates_bps, durations_ns)
def test_rate_inverts_volume(rate_bps: float, duration_ns: int) -> None:
    size_bytes = units.transfer_bytes(rate_bps, duration_ns)
    assert units.rate_bps(size_bytes, duration_ns) == pytest.approx(rate_bps, rel=1e-12)


def test_nothing_is_ever_finished_at_rate_zero() -> None:
    with pytest.raises(ZeroDivisionError):
        units.transfer_ns(1.0, 0.0)


def test_a_rate_that_is_next_to_nothing_takes_next_to_for_ever() -> None:
    # A peer may say that a share is 1e-300 bit/s.
    assert units.transfer_ns(1e6, 1e-300) == units.transfer_ns(1e18, 1e-9) == units.LONGEST_NS
