"""Iterations of a job that marks none, from what it has sent at its rests."""

import random
from itertools import accumulate, cycle, islice

import pytest

from paceline.flowcore.demand.rhythm import ALIKE, LEAST_BYTES, LOST, IterationRhythm

MB = 1e6


def observe(rhythm: IterationRhythm, bursts: list[float], since: float = 0.0) -> float:
    """Each followed by a rest."""
    sent = since
    for sent in accumulate(bursts, initial=since):
        rhythm.observe(sent, resting=True)
        rhythm.observe(sent, resting=True)  # it is looked at more than once
        rhythm.observe(sent + 0.4 * MB, resting=False)
    return sent


@pytest.mark.parametrize("bursts", [[25.0], [10.0, 10.0, 20.0], [3.0, 7.0, 1.0, 7.0, 5.0], list(range(1, 16))])
def test_iterations_are_counted_however_many_bursts_they_have(bursts: list[float]) -> None:
    rhythm, sizes = IterationRhythm(), [MB * size for size in bursts]
    observe(rhythm, sizes * 20)
    assert rhythm.size_bytes == pytest.approx(sum(sizes))
    assert 20 - ALIKE <= rhythm.iterations <= 20


def test_equal_bursts_are_an_iteration_each() -> None:
    rhythm = IterationRhythm()
    observe(rhythm, [4 * MB] * 30)
    assert rhythm.size_bytes == 4 * MB and rhythm.iterations >= 30 - ALIKE


def test_bursts_that_run_into_one_now_and_then_only_take_longer_to_learn() -> None:
    rhythm, draws, bursts = IterationRhythm(), random.Random(1), list[float]()
    for _ in range(40):
        bursts += draws.choice([[5 * MB, 7 * MB, 9 * MB], [12 * MB, 9 * MB], [5 * MB, 16 * MB]])
    observe(rhythm, bursts)
    assert rhythm.size_bytes == pytest.approx(21 * MB) and rhythm.iterations >= 25


def test_iterations_without_a_rest_between_them_are_counted_by_their_bytes() -> None:
    rhythm = IterationRhythm()
    sent = observe(rhythm, [10 * MB] * 5)
    before = rhythm.iterations
    observe(rhythm, [30 * MB, 10 * MB], since=sent)
    assert rhythm.iterations == before + 4


def test_what_has_no_rhythm_has_no_iterations() -> None:
    rhythm, draws = IterationRhythm(), random.Random(2)
    observe(rhythm, [draws.uniform(5, 50) * MB for _ in range(300)])
    assert rhythm.size_bytes is None or rhythm.iterations < 30, "three rests in a row may be alike by chance"
    assert IterationRhythm().iterations == 0


def test_control_is_no_burst_and_no_rest() -> None:
    rhythm = IterationRhythm()
    observe(rhythm, [LEAST_BYTES / 4] * 40)
    assert rhythm.size_bytes is None or rhythm.size_bytes >= LEAST_BYTES


def test_another_rhythm_is_found_when_the_old_one_is_lost() -> None:
    rhythm = IterationRhythm()
    sent = observe(rhythm, [10 * MB, 20 * MB] * 6)
    counted = rhythm.iterations
    observe(rhythm, [MB * size for size in islice(cycle([17.0, 40.0]), 3 * LOST)], since=sent)
    assert rhythm.size_bytes == pytest.approx(57 * MB) and rhythm.iterations > counted, "it never counts back"
