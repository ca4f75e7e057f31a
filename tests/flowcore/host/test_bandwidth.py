"""B_i (§IV-C): the maximum of four slots, and the probe that keeps a slow flow from staying slow."""

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.host.bandwidth import BandwidthEstimate, Sample, Stretches

LINE_BPS = 10e9
SLOT_NS = 60_000_000


def send(estimate: BandwidthEstimate, slot: int, rate_bps: float, limit_bps: float = inf) -> float:
    """Sends through a whole slot; the bandwidth it can then count on."""
    estimate.observe(slot, Sample(rate_bps, limit_bps))
    return estimate.value(slot)


def test_starts_at_line_rate() -> None:
    assert BandwidthEstimate(LINE_BPS).value(0) == LINE_BPS


def test_maximum_of_the_last_four_slots() -> None:
    estimate = BandwidthEstimate(LINE_BPS)
    rates_gbps = [1, 5, 2, 3, 1, 1, 4]
    seen = [send(estimate, slot, gbps * 1e9) / 1e9 for slot, gbps in enumerate(rates_gbps)]
    assert seen == pytest.approx([1, 5, 5, 5, 5, 3, 4])


def test_idle_slots_are_no_samples_and_let_the_past_expire() -> None:
    estimate = BandwidthEstimate(LINE_BPS)
    send(estimate, 0, 1e9)
    for slot in (1, 2, 3):
        assert estimate.value(slot) == pytest.approx(1e9)
    assert estimate.value(4) == LINE_BPS


def test_a_slow_flow_finds_the_bandwidth_that_came_free() -> None:
    """Always at the host's limit: B grows by a quarter per slot, up to the line rate and no further."""
    estimate = BandwidthEstimate(LINE_BPS)
    bandwidth_bps = send(estimate, 0, 1e9)
    for slot in range(1, 20):
        grown_bps = send(estimate, slot, rate_bps=bandwidth_bps, limit_bps=bandwidth_bps)
        assert grown_bps == pytest.approx(min(LINE_BPS, 1.25 * bandwidth_bps))
        bandwidth_bps = grown_bps
    assert bandwidth_bps == LINE_BPS


def test_our_own_low_limit_does_not_lower_the_estimate() -> None:
    estimate = BandwidthEstimate(LINE_BPS)
    before_bps = send(estimate, 0, 4e9)
    for slot in range(1, 10):
        after_bps = send(estimate, slot, rate_bps=0.98e9, limit_bps=1e9)
        assert after_bps >= before_bps
        before_bps = after_bps


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.8, 1.0)), min_size=1, max_size=200))
@settings(deadline=None)
def test_a_kernel_that_passes_80_to_100_percent_of_our_limit_never_lowers_it(slots: list[tuple[float, float]]) -> None:
    """The loop closed: each slot's limit is a part of the estimate, and a part of that limit comes through."""
    estimate = BandwidthEstimate(LINE_BPS)
    bandwidth_bps = send(estimate, 0, 4e9)
    for slot, (planned, passed) in enumerate(slots, start=1):
        limit_bps = max(1e6, planned * bandwidth_bps)
        after_bps = send(estimate, slot, passed * limit_bps, limit_bps)
        assert after_bps >= bandwidth_bps
        bandwidth_bps = after_bps


def test_a_flow_that_may_send_little_and_sends_less_does_not_lower_it() -> None:
    """Nobody has tried how much there is."""
    estimate = BandwidthEstimate(LINE_BPS)
    send(estimate, 0, 4e9)
    assert send(estimate, 1, 0.0, limit_bps=1e6) == pytest.approx(4e9)
    assert send(estimate, 2, 1e9, limit_bps=2e9) == pytest.approx(4e9)
    for slot in range(3, 7):
        lowered_bps = send(estimate, slot, 1e9, limit_bps=4e9)
    assert lowered_bps == pytest.approx(1e9)


def test_a_probe_in_vain_ends_with_the_next_sample() -> None:
    estimate = BandwidthEstimate(LINE_BPS)
    send(estimate, 0, 1e9)
    assert send(estimate, 1, 1e9, limit_bps=1e9) == pytest.approx(1.25e9)
    assert send(estimate, 2, 0.9e9, limit_bps=1.25e9) == pytest.approx(1e9)


def test_a_probe_never_grows_from_a_burst_above_line_rate() -> None:
    estimate = BandwidthEstimate(LINE_BPS)
    assert send(estimate, 0, 3 * LINE_BPS) == LINE_BPS


def test_one_sample_per_slot() -> None:
    estimate = BandwidthEstimate(LINE_BPS)
    send(estimate, 3, 1e9)
    with pytest.raises(ValueError, match="slot 3 observed after slot 3"):
        send(estimate, 3, 1e9)


slot_samples = st.tuples(
    st.integers(1, 6),  # slots since the sample before
    st.one_of(st.just(0.0), st.floats(1.0, 2e10)),
    st.sampled_from([inf, 1e9, 5e9, 1e10]),
)


@given(st.lists(slot_samples, max_size=30))
@settings(deadline=None)
def test_within_line_rate_and_never_below_what_was_just_sent(samples: list[tuple[int, float, float]]) -> None:
    estimate, slot = BandwidthEstimate(LINE_BPS), 0
    for later, rate_bps, limit_bps in samples:
        slot += later
        before_bps = estimate.value(slot)
        after_bps = send(estimate, slot, rate_bps, limit_bps)
        assert min(rate_bps, LINE_BPS) * (1 - 1e-9) <= after_bps <= LINE_BPS
        if rate_bps >= limit_bps:
            assert after_bps >= before_bps


# ---- The fastest stretch of a slot ----


def stretches(*of: tuple[int, float, float]) -> Stretches:
    """(ms, Gbit/s sent, Gbit/s allowed), each read at its end."""
    slot = Stretches()
    for ms, sent_gbps, limit_gbps in of:
        slot.passed(ms * 10**6, limit_gbps * 1e9)
        slot.sent(sent_gbps * ms * 125e3, counts=True)
    return slot


def test_a_slot_is_as_fast_as_its_fastest_stretch_under_the_limit_of_that_stretch() -> None:
    assert stretches((20, 1, 1), (10, 3, 4), (30, 2, 9)).take(counts=True) == pytest.approx((3e9, 4e9))


def test_readings_that_follow_each_other_closely_are_one_stretch() -> None:
    assert stretches((1, 10, 10), (4, 1, 10)).take(counts=True) == pytest.approx((2.8e9, 10e9))


def test_a_slot_without_a_stretch_long_enough_is_one() -> None:
    slot = stretches((2, 3, 10))
    assert slot.take(counts=True) == pytest.approx((3e9, 10e9))
    assert slot.take(counts=True) is None, "an idle slot is no sample"


def test_what_shows_another_flow_is_no_sample() -> None:
    slot = stretches()
    slot.passed(10**7, 1e9)
    slot.sent(1e6, counts=False)
    assert slot.take(counts=False) is None
