"""Which of the placements a scheduler would accept anyway is best (CASSINI, Algorithm 2).

Every candidate's shared links are rotated; a candidate whose affinity graph has a loop loses to those without; those
rank by the mean score of their links. Where all candidates have loops, the parts of the graph without one are shifted
still.
"""

from collections.abc import Iterable, Sequence
from math import inf

from paceline.flowcore.allocation.shifts.plan import Links, Plan, plan

MOST_CANDIDATES = 10


def best(candidates: Iterable[Links], least_score: float = -inf) -> tuple[int, Plan]:
    """The place of the winner among the candidates, and its plan; of equals the first."""
    plans: Sequence[Plan] = [plan(links, least_score) for links in candidates]
    place = max(range(len(plans)), key=lambda number: (not plans[number].loop, round(plans[number].score, 9)))
    return place, plans[place]
