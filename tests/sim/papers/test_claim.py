"""When a claim holds."""

import pytest

from paceline.sim.papers.claim import figure, order


@pytest.mark.parametrize(
    ("paper", "seeds", "holds"),
    [
        (30.0, [19.0, 21.1], True),
        (30.0, [19.0, 20.9], False),
        (-39.0, [-20.0, -33.0], True),
        (-39.0, [-20.0, -31.0], False),
        (-39.0, [39.0], False),
    ],
)
def test_a_figure_holds_from_two_thirds_of_the_papers_on(paper: float, seeds: list[float], holds: bool) -> None:
    claim = figure("c", "V", paper, seeds)
    assert claim.holds == holds
    assert claim.spread == (min(seeds), max(seeds))
    assert claim.here == pytest.approx(sum(seeds) / len(seeds))


@pytest.mark.parametrize(("seeds", "holds"), [([-1.0, 2.0], True), ([-1.0], False), ([0.0], False)])
def test_an_order_holds_if_the_mean_is_above_nothing(seeds: list[float], holds: bool) -> None:
    assert order("c", "V", "below", seeds).holds == holds
