"""Cristian's algorithm: the offset is found to within half a round trip, whatever the delays."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.clocks import DRIFT, MAX_SKEW, ClockEstimate

SLOT_NS = 60_000_000


def exchange(
    estimate: ClockEstimate, sent_ns: int, there_ns: int, held_ns: int, back_ns: int, peer: Callable[[int], int]
) -> None:
    """A message out, held by the peer, and back; `peer` maps true time (which is our clock) to the peer's."""
    arrives = sent_ns + there_ns
    estimate.observe(sent_ns, peer(arrives), peer(arrives + held_ns), arrives + held_ns + back_ns)


delays = st.integers(0, 5_000_000)


@given(st.integers(-(10**12), 10**12), st.lists(st.tuples(delays, delays, delays), min_size=1, max_size=40))
def test_never_further_off_than_half_the_shortest_round_trip(
    offset_ns: int, exchanges: list[tuple[int, int, int]]
) -> None:
    estimate = ClockEstimate()
    for number, (there, held, back) in enumerate(exchanges):
        exchange(estimate, number * SLOT_NS, there, held, back, lambda t: t + offset_ns)
        recent = exchanges[max(0, number - 15) : number + 1]
        shortest = min(there + back for there, _, back in recent)
        # Rounding, what a younger sample is thought to be better by, and the skew that noise of this size can fake.
        fake_ns = 16 * SLOT_NS * DRIFT + number * SLOT_NS * abs(estimate.skew)
        found = estimate.offset_ns(number * SLOT_NS)
        assert abs(found - offset_ns) <= shortest / 2 + fake_ns + 1


def test_follows_a_clock_that_runs_faster() -> None:
    estimate = ClockEstimate()
    skew = 50e-6
    for number in range(1000):
        wiggle = (number * 7919) % 400_000
        exchange(estimate, number * SLOT_NS, 100_000 + wiggle, 0, 100_000, lambda t: t + 7_000_000 + int(t * skew))
    assert abs(estimate.skew - skew) < 5e-6
    in_ten_seconds = 1000 * SLOT_NS + 10_000_000_000
    truth = 7_000_000 + in_ten_seconds * skew
    assert abs(estimate.offset_ns(in_ten_seconds) - truth) < 200_000


def test_a_good_sample_outlives_a_while_of_queues() -> None:
    estimate = ClockEstimate()
    for number in range(200):
        queue = 0 if number < 20 else 800_000_000  # all of it on the way there
        exchange(estimate, number * SLOT_NS, 100_000 + queue, 0, 100_000, lambda t: t + 7_000_000)
    assert abs(estimate.offset_ns(200 * SLOT_NS) - 7_000_000) < 3_000_000


def test_impossible_times_are_left_out() -> None:
    estimate = ClockEstimate()
    estimate.observe(100, 50, 40, 200)  # answered before it arrived
    estimate.observe(100, 0, 500, 200)  # held longer than the whole exchange took
    estimate.observe(200, 0, 0, 100)  # came back before it left
    assert not estimate.known and estimate.offset_ns(0) == 0


@given(st.integers(1, 1000), st.integers(-(10**12), 10**12), delays, delays)
def test_a_peer_with_another_clock_is_followed_at_once(heard: int, step_ns: int, there_ns: int, back_ns: int) -> None:
    """It was restarted, or set: one exchange that the old clock cannot have had is enough."""
    estimate = ClockEstimate()
    for number in range(min(heard, 200)):
        exchange(estimate, number * SLOT_NS, 100_000, 0, 100_000, lambda t: t + 7_000_000)
    exchange(estimate, heard * SLOT_NS, there_ns, 0, back_ns, lambda t: t + step_ns)
    believable_ns = (there_ns + back_ns) / 2 + 100_000 + heard * SLOT_NS * MAX_SKEW + 2
    found_ns = estimate.offset_ns(heard * SLOT_NS)
    assert min(abs(found_ns - step_ns), abs(found_ns - 7_000_000)) <= believable_ns
    if abs(step_ns - 7_000_000) > 2 * believable_ns:
        assert abs(found_ns - step_ns) <= believable_ns
