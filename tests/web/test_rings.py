"""The rings of a link's timeline: means, gaps, bounds, and a clock that is set back."""

import pytest

from paceline.web.rings import MOST_JOBS, OTHERS, Ring


def test_a_bucket_has_the_mean_of_its_samples() -> None:
    ring = Ring(10)
    ring.add(100, {"a": 10.0, "b": 4.0})
    ring.add(100, {"a": 20.0})
    assert ring.since(-1) == ([100], {"a": [15], "b": [2]})


def test_a_bucket_without_a_sample_is_a_gap_and_an_idle_one_is_not() -> None:
    ring = Ring(10)
    for bucket in (100, 103):
        ring.add(bucket, {"a": 8.0})
    ring.add(104, {})
    assert ring.since(-1) == ([100, 103, 104], {"a": [8, 8, 0]})
    assert ring.since(103) == ([104], {})


@pytest.mark.parametrize("step", [1, 3, 7, 50])
def test_only_the_newest_are_kept(step: int) -> None:
    ring = Ring(20)
    for bucket in range(0, 400, step):
        ring.add(bucket, {"a": 1.0 + bucket})
    buckets, jobs = ring.since(-1)
    newest = range(0, 400, step)[-1]
    assert buckets == [one for one in range(0, 400, step) if one > newest - 20]
    assert jobs == {"a": [1 + bucket for bucket in buckets]}


def test_time_that_turns_back_begins_anew() -> None:
    ring = Ring(10)
    ring.add(1000, {"a": 1.0})
    ring.add(5, {"b": 2.0})
    assert ring.since(-1) == ([5], {"b": [2]})


def test_jobs_that_come_and_go_take_no_more_room_than_a_few() -> None:
    ring = Ring(8)
    for bucket in range(10_000):
        ring.add(bucket, {f"job-{bucket}": 1.0})
    assert len(ring.jobs()) <= MOST_JOBS
    ring.add(10_000, {f"more-{number}": 2.0 for number in range(100)})
    _, jobs = ring.since(9_999)
    assert len(jobs) <= MOST_JOBS + 1 and jobs[OTHERS][0] >= 2 * (100 - MOST_JOBS)
    assert sum(row[0] for row in jobs.values()) == 200
