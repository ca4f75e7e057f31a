"""Which of the placements a scheduler would accept anyway is best (CASSINI, Algorithm 2).

Every candidate's shared links are rotated; a candidate whose affinity graph has a loop loses to those without; those
rank by the mean score of their links. Where all candidates have loops, the parts of the graph without one are shifted
still.

A mean does not say over how many links: a placement that meets others a little on many of them outranks one that meets
them on one. `by_sum` ranks by what does not fit, over all links together (ours, to show that).
"""

from collections.abc import Iterable, Sequence
from math import inf

from paceline.flowcore.allocation.shifts.plan import Links, Plan, plan

MOST_CANDIDATES = 10


def best(candidates: Iterable[Links], least_score: float = -inf, *, by_sum: bool = False) -> tuple[int, Plan]:
    """The place of the winner among the candidates, and its plan; of equals the first."""
    plans: Sequence[Plan] = [plan(links, least_score) for links in candidates]

    def rank(number: int) -> tuple[bool, float]:
        found = plans[number]
        return not found.loop, round(_what_fits(found) if by_sum else found.score, 9)

    place = max(range(len(plans)), key=rank)
    return place, plans[place]


def _what_fits(found: Plan) -> float:
    """0 if all does."""
    return sum(rotation.score - 1.0 for rotation in found.rotations.values())
