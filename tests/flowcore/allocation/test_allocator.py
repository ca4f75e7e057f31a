"""Algorithm 1 (§IV-B): the fast form against the algorithm as the paper writes it."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.flowcore.allocation.allocator import DEFAULT_WEIGHT, ROUNDING, Schedule, allocate

Problem = tuple[float, list[float], list[float], float]


def allocate_naive(
    volume_bytes: float, room_bytes: Sequence[float], price: Sequence[float], weight: float = DEFAULT_WEIGHT
) -> Schedule:
    """The paper's loop: for every β sort, fill, compare."""
    horizon = len(room_bytes)
    if volume_bytes == 0.0:
        return Schedule((0.0,) * horizon, 0, 0.0, True)
    best = None
    for beta in range(1, horizon + 1):
        volume, remaining = [0.0] * horizon, volume_bytes
        for slot in sorted(range(beta), key=lambda t: (price[t], t)):
            if remaining <= ROUNDING * volume_bytes:
                break
            volume[slot] = min(room_bytes[slot], remaining)
            remaining -= volume[slot]
        if remaining <= ROUNDING * volume_bytes:
            cost = cost_of(volume, volume_bytes, price, beta, weight)
            if best is None or cost < best.cost:
                best = Schedule(tuple(volume), beta, cost, True)
    return best or Schedule(
        tuple(room_bytes), horizon, cost_of(room_bytes, volume_bytes, price, horizon, weight), False
    )


def cost_of(volume: Sequence[float], volume_bytes: float, price: Sequence[float], beta: int, weight: float) -> float:
    return beta + weight * (sum(v * p for v, p in zip(volume, price, strict=True)) / volume_bytes)


@st.composite
def exact_problems(draw: st.DrawFn) -> Problem:
    """Whole bytes and prices in eighths: every sum is exact, so that even ties must be broken alike."""
    horizon = draw(st.integers(1, 12))
    room = draw(st.lists(st.integers(0, 12).map(float), min_size=horizon, max_size=horizon))
    price = draw(st.lists(st.integers(0, 16).map(lambda k: k / 8), min_size=horizon, max_size=horizon))
    volume = draw(st.integers(0, int(sum(room)) + 5).map(float))
    return volume, room, price, draw(st.sampled_from([0.0, 0.5, 1.0, 3.0, 16.0]))


@st.composite
def real_problems(draw: st.DrawFn) -> Problem:
    """Any floats over eighteen orders of magnitude, idle and full slots among them."""
    horizon = draw(st.integers(1, 40))
    rooms = st.one_of(st.just(0.0), st.floats(1e-3, 1e15))
    room = draw(st.lists(rooms, min_size=horizon, max_size=horizon))
    price = draw(st.lists(st.floats(0.0, 4.0), min_size=horizon, max_size=horizon))
    volume = draw(st.one_of(st.floats(1e-3, 1e15), st.just(sum(room))))
    return volume, room, price, draw(st.floats(0.0, 20.0))


@given(exact_problems())
@example((6.0, [4.0, 4.0, 4.0], [1.0, 1.0, 1.0], 1.0))
@example((4.0, [4.0, 4.0], [1.0, 0.0], 1.0))  # β = 1 and β = 2 cost the same
@settings(deadline=None)
def test_same_schedule_as_the_paper(problem: Problem) -> None:
    assert allocate(*problem) == allocate_naive(*problem)


@given(real_problems())
@settings(deadline=None)
def test_same_cost_as_the_paper_whatever_the_magnitudes(problem: Problem) -> None:
    fast, naive = allocate(*problem), allocate_naive(*problem)
    assert fast.complete == naive.complete
    assert fast.cost == pytest.approx(naive.cost, rel=1e-9)


@given(real_problems())
@settings(deadline=None)
def test_volume_is_conserved_and_room_respected(problem: Problem) -> None:
    volume, room, price, weight = problem
    schedule = allocate(*problem)
    assert len(schedule.volume_bytes) == len(room)
    assert all(0.0 <= v <= a for v, a in zip(schedule.volume_bytes, room, strict=True))
    assert not any(schedule.volume_bytes[schedule.finish_slots :])
    if schedule.complete:
        assert sum(schedule.volume_bytes) == pytest.approx(volume, rel=1e-9)
    else:
        assert schedule.volume_bytes == tuple(room)
        assert schedule.finish_slots == len(room)
    if volume > 0.0:
        cost = cost_of(schedule.volume_bytes, volume, price, schedule.finish_slots, weight)
        assert schedule.cost == pytest.approx(cost, rel=1e-9)


def test_cheap_slots_first_and_the_dearest_partly() -> None:
    schedule = allocate(10.0, [4.0, 4.0, 4.0], [0.5, 0.75, 0.25])
    assert schedule == Schedule((4.0, 2.0, 4.0), 3, 3 + (4 * 0.5 + 2 * 0.75 + 4 * 0.25) / 10, True)


def test_a_slot_of_delay_must_be_worth_it() -> None:
    room, price = [10.0, 10.0], [0.75, 0.0]
    assert allocate(10.0, room, price, weight=1.0).volume_bytes == (10.0, 0.0)
    assert allocate(10.0, room, price, weight=2.0).volume_bytes == (0.0, 10.0)


def test_first_slot_partly_over() -> None:
    assert allocate(10.0, [2.5, 10.0], [0.0, 0.0]) == Schedule((2.5, 7.5), 2, 2.0, True)


def test_sums_that_round_do_not_open_another_slot() -> None:
    schedule = allocate(1.0, [0.1] * 12, [0.0] * 12)  # ten times 0.1 is a hair less than 1
    assert (schedule.finish_slots, schedule.complete) == (10, True)


def test_nothing_to_send() -> None:
    assert allocate(0.0, [1.0, 1.0], [0.0, 0.0]) == Schedule((0.0, 0.0), 0, 0.0, True)
    assert allocate(0.0, [], []) == Schedule((), 0, 0.0, True)


def test_volume_outlasts_the_horizon() -> None:
    assert allocate(10.0, [2.0, 3.0], [1.0, 0.0]) == Schedule((2.0, 3.0), 2, 2.2, False)
    assert allocate(10.0, [], []) == Schedule((), 0, 0.0, False)
