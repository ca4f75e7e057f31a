import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.model.slots import SlotClock

# Days of nanoseconds, far beyond what a float resolves.
times_ns = st.integers(min_value=-(2**62), max_value=2**62)
clocks = st.builds(
    SlotClock,
    length_ns=st.integers(min_value=1, max_value=10**10),
    horizon=st.integers(min_value=1, max_value=1000),
    epoch_ns=times_ns,
)


def test_sixty_millisecond_slots() -> None:
    clock = SlotClock(length_ns=60_000_000, horizon=10, epoch_ns=1_000)
    assert clock.index(1_000) == 0
    assert clock.index(60_000_999) == 0
    assert clock.index(60_001_000) == 1
    assert clock.start_ns(2) == 120_001_000
    assert clock.end_ns(2) == 180_001_000
    assert clock.remaining_ns(60_000_999) == 1


def test_before_the_epoch_slots_are_negative() -> None:
    clock = SlotClock(length_ns=10, horizon=1, epoch_ns=100)
    assert [clock.index(now_ns) for now_ns in (100, 99, 90, 89)] == [0, -1, -1, -2]
    assert clock.next_start_ns(95) == 100
    assert clock.remaining_ns(91) == 9


def test_at_a_boundary_the_next_start_is_a_whole_slot_away() -> None:
    clock = SlotClock(length_ns=10, horizon=1)
    assert clock.next_start_ns(20) == 30
    assert clock.remaining_ns(20) == 10


@given(clocks, st.integers(min_value=-(2**40), max_value=2**40))
def test_start_and_index_are_inverse(clock: SlotClock, slot: int) -> None:
    assert clock.index(clock.start_ns(slot)) == slot
    assert clock.index(clock.start_ns(slot) - 1) == slot - 1
    assert clock.index(clock.end_ns(slot) - 1) == slot


@given(clocks, times_ns)
def test_every_time_lies_in_exactly_one_slot(clock: SlotClock, now_ns: int) -> None:
    slot = clock.index(now_ns)
    assert clock.start_ns(slot) <= now_ns < clock.end_ns(slot) == clock.start_ns(slot + 1)


@given(clocks, times_ns)
def test_the_next_start_is_strictly_later_and_a_boundary(clock: SlotClock, now_ns: int) -> None:
    next_ns = clock.next_start_ns(now_ns)
    assert now_ns < next_ns <= now_ns + clock.length_ns
    assert (next_ns - clock.epoch_ns) % clock.length_ns == 0
    assert clock.remaining_ns(now_ns) == next_ns - now_ns


@pytest.mark.parametrize(("length_ns", "horizon"), [(0, 10), (-1, 10), (60, 0), (60, -3)])
def test_a_clock_that_cannot_tick_is_refused(length_ns: int, horizon: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        SlotClock(length_ns, horizon)
