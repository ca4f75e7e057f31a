"""Titan §II-B: what pairs of workers exchange."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.collectives import COLLECTIVES, halving_doubling, ring, totals

K = 8.0


def test_halving_doubling_of_four_is_the_papers_figure() -> None:
    """K/2, K/4, K/4, K/2 between W1-W3 and W2-W4, then W1-W2 and W3-W4."""
    first, second = halving_doubling(4, K)
    assert first.bytes_of == {(0, 2): K / 2, (1, 3): K / 2}
    assert second.bytes_of == {(0, 1): K / 4, (2, 3): K / 4}
    assert first.times == second.times == 2


def test_workers_beyond_a_power_of_two_hand_over_and_get_back() -> None:
    handed, *core = halving_doubling(5, K)
    assert handed.bytes_of == {(0, 4): K}
    assert tuple(core) == halving_doubling(4, K)


def test_a_ring_passes_a_part_on_in_every_phase() -> None:
    (phase,) = ring(4, K)
    assert phase.bytes_of == {(0, 1): K / 4, (1, 2): K / 4, (2, 3): K / 4, (3, 0): K / 4}
    assert phase.times == 6


@given(power=st.integers(1, 6))
def test_both_send_as_much_as_any_all_reduce_must(power: int) -> None:
    """2(n-1)/n of the model per worker. A ring's exchange goes one way, halving-doubling's both ways."""
    workers = 2**power
    least = 2 * (workers - 1) / workers * K * workers
    assert sum(totals(ring(workers, K)).values()) == pytest.approx(least)
    assert 2 * sum(totals(halving_doubling(workers, K)).values()) == pytest.approx(least)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_worker_exchanges_nothing(collective: str) -> None:
    assert totals(COLLECTIVES[collective](1, K)) == {}
