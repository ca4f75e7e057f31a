"""The size of an iteration of a job over NCCL, from what was seen on an H200 of two at a time on one link."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.demand.launched import LaunchedDemand
from paceline.flowcore.messages.events import JobJoined
from paceline.flowcore.model.patterns import Role

NEXT = (Role.RING, "h1")
WIRE = 1514 / 1448


class Look(NamedTuple):
    """In MB: on the wire what sockets have sent and hold, as payload what the plugin has counted and launched."""

    iteration: int
    sent: float
    waiting: float
    counted: float
    marked: float
    resting: bool
    launched: float = 0.0
    expected: float = 0.0


def sizes(looks: Iterable[Look]) -> list[float]:
    """With which a job joins."""
    demand, joined = LaunchedDemand("a", "h0"), []
    for look in looks:
        facts = JobFacts(
            look.iteration, True, True, 2, {NEXT: look.sent}, {},
            resting=look.resting,
            waiting_bytes={NEXT: look.waiting},
            counted_bytes=WIRE * look.counted,
            marked_bytes=WIRE * look.marked,
            to_send_bytes=WIRE * look.launched,
            launched_bytes=look.launched,
            expected_bytes=look.expected,
        )  # fmt: skip
        joined += [event for event in demand.observe(facts) if isinstance(event, JobJoined)]
    return [event.flows[0].size_bytes for event in joined]


# The same job at its two hosts. Its first mark comes in the middle of an iteration, and its sockets were found late.
AT_ONE_HOST = (
    (0, 0.0, 0.0, 15.2, 0.0, True), (0, 19.73, 0.0, 25.0, 25.0, True), (1, 19.98, 1.36, 29.2, 27.1, False),
    (1, 21.72, 0.99, 29.2, 27.1, True), (1, 44.96, 0.47, 50.0, 27.1, False), (2, 45.17, 0.45, 50.0, 50.0, False),
    (2, 45.87, 0.0, 50.0, 50.0, True), (2, 45.87, 1.31, 52.02, 50.0, True), (2, 72.01, 0.0, 75.01, 50.0, False),
    (3, 72.01, 0.0, 75.01, 75.01, True),
)  # fmt: skip
AT_THE_OTHER = (
    (0, 0.0, 0.0, 0.0, 0.0, True), (1, 0.0, 0.0, 5.24, 0.0, True), (1, 0.0, 2.08, 8.39, 0.0, True),
    (1, 19.74, 0.0, 25.0, 0.0, False), (2, 19.74, 0.0, 25.0, 25.0, True), (2, 19.74, 2.45, 28.02, 25.0, True),
    (2, 45.88, 0.0, 50.0, 25.0, False), (3, 45.88, 0.0, 50.0, 50.0, True),
)  # fmt: skip


@pytest.mark.parametrize("looks", [AT_ONE_HOST, AT_THE_OTHER])
def test_a_size_lies_between_two_rests_at_marks(looks: tuple[Any, ...]) -> None:
    """It was 24.15 at the one host, for nine iterations, and 26.84 at the other, from the fifth to the sixteenth."""
    assert sizes(Look(*one) for one in looks) == [pytest.approx(26.14)]


# A job that marks an iteration when it has just launched the next one, so that it never rests at a mark.
MARKS_IN_BURSTS = (
    Look(0, 0.0, 0.0, 0.0, 0.0, True), Look(0, 0.0, 0.0, 0.0, 0.0, True, 45.0),
    Look(1, 0.0, 0.0, 2.1, 2.1, True, 90.0, 45.0), Look(1, 0.99, 1.95, 14.68, 2.1, False, 90.0, 45.0),
    Look(1, 35.54, 0.0, 45.0, 2.1, True, 90.0, 45.0), Look(1, 35.54, 0.85, 46.53, 2.1, True, 93.06, 45.0),
    Look(2, 35.54, 1.25, 46.53, 46.53, True, 135.0, 45.0), Look(2, 35.89, 1.23, 46.92, 46.53, False, 135.0, 45.0),
    Look(2, 82.59, 0.0, 90.0, 46.53, True, 135.0, 45.0), Look(2, 83.03, 0.87, 91.53, 46.53, False, 180.0, 45.0),
    Look(3, 83.26, 0.6, 91.53, 91.53, False, 180.0, 45.0), Look(3, 129.65, 0.0, 135.0, 91.53, True, 180.0, 45.0),
    Look(3, 129.72, 1.13, 136.53, 91.53, False, 183.06, 45.0),
    Look(4, 130.01, 0.72, 136.53, 136.53, False, 225.0, 45.0),
    # It waits in the middle of a burst, while the other job sends.
    Look(4, 132.85, 0.0, 138.07, 136.53, True, 225.0, 45.0), Look(4, 161.35, 0.0, 165.33, 136.53, True, 225.0, 45.0),
    Look(4, 176.7, 0.0, 180.0, 136.53, True, 225.0, 45.0),
)  # fmt: skip


def test_a_size_is_what_was_launched_as_soon_as_that_is_out() -> None:
    """It was known after twelve seconds, on the other host after two; and now and then it was 51.4."""
    assert sizes(MARKS_IN_BURSTS[:9]) == sizes(MARKS_IN_BURSTS) == [pytest.approx(47.05)]


def test_a_size_is_what_was_counted_between_marks_where_a_ring_says_nothing_of_that() -> None:
    """A tree, say, that sends three quarters."""
    less = [look._replace(launched=look.launched / 0.75, expected=look.expected / 0.75) for look in MARKS_IN_BURSTS]
    assert sizes(less) == [pytest.approx(47.05)]


def test_bytes_that_lay_in_sockets_at_a_rest_make_no_size() -> None:
    """Another job's burst held them up: 48.7 was learned, where an iteration has 47.05."""
    waiting, steps = 1.6, []
    for number in range(1, 6):
        sent = 47.05 * number - (waiting if number == 2 else 0.0)
        held = waiting if number == 2 else 0.0
        steps.append(Look(number, sent, held, 45.0 * number, 45.0 * number - 30.0, True))
    assert sizes(steps) == [pytest.approx(47.05)]


def test_two_rests_at_the_same_point_within_a_burst_are_not_the_end_of_an_iteration() -> None:
    """They are one iteration apart, but more is to come at either than at other rests."""
    looks = []
    for number in range(1, 4):
        for part in (0.4, 1.0):
            counted = 45.0 * (number - 1 + part)
            marked, launched = 45.0 * (number - 1) + 1.5, 45.0 * number
            looks.append(Look(number, WIRE * counted, 0.0, counted, marked, True, launched, 45.0))
    found = [place for place in range(len(looks)) if sizes(looks[: place + 1])]
    assert found[0] == 3 and sizes(looks) == [pytest.approx(WIRE * 45.0)]
