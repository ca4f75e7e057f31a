"""Workers over machines: every worker has a place, and no move or swap would lower the traffic."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.collectives import COLLECTIVES, halving_doubling, totals
from paceline.cluster.titan.partition import partition, repaired


def crossing(machine_of: list[int], traffic: dict[tuple[int, int], float]) -> float:
    return sum(size for (one, other), size in traffic.items() if machine_of[one] != machine_of[other])


@given(
    room=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    collective=st.sampled_from(sorted(COLLECTIVES)),
    spare=st.integers(0, 4),
)
def test_every_worker_has_a_place_that_no_swap_improves(room: list[int], collective: str, spare: int) -> None:
    workers = max(1, sum(room) - spare)
    traffic = totals(COLLECTIVES[collective](workers, 64.0))
    found = partition(workers, room, traffic)
    assert all(found.count(machine) <= size for machine, size in enumerate(room))
    least = crossing(found, traffic)
    for one, other in combinations(range(workers), 2):
        swapped = list(found)
        swapped[one], swapped[other] = found[other], found[one]
        assert crossing(swapped, traffic) >= least - 1e-6
    for worker in range(workers):
        for machine, size in enumerate(room):
            if found.count(machine) < size:
                moved = [*found[:worker], machine, *found[worker + 1 :]]
                assert crossing(moved, traffic) >= least - 1e-6


def test_halving_doubling_is_cut_where_it_is_thinnest() -> None:
    """Two machines of four for eight workers: only the K/8 of neighbours crosses, four pairs, twice."""
    traffic = totals(halving_doubling(8, 64.0))
    assert crossing(partition(8, [4, 4], traffic), traffic) == 4 * 2 * 64.0 / 8
    assert crossing(partition(8, [7, 7], traffic), traffic) == 4 * 2 * 64.0 / 8


def test_a_repair_ends_when_nothing_exceeds_or_nothing_helps() -> None:
    assert repaired([0, 0, 1], [2, 2], lambda places: float(places[0] == 0)) == [1, 0, 1]
    assert repaired([0, 0, 1], [2, 2], lambda places: 1.0) == [0, 0, 1]
